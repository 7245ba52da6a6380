// SPDX-License-Identifier: GPL-2.0
/*
 * An endpoint, as fit.h says.
 */
#include <poll.h>
#include <time.h>

#include "fit.h"

struct fi_info *hints_for(uint64_t caps)
{
	struct fi_info *hints = fi_allocinfo();

	CHECK(hints);
	hints->fabric_attr->prov_name = strdup("weft");
	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = caps;
	return hints;
}

void fit_open(struct fit *f, const char *port, enum waiting waiting, uint64_t more)
{
	static const enum fi_wait_obj objects[] = {
		[SPIN] = FI_WAIT_NONE, [SREAD] = FI_WAIT_UNSPEC, [FD] = FI_WAIT_FD,
	};
	struct fi_cq_attr cq_attr = {
		.format = FI_CQ_FORMAT_TAGGED, .wait_obj = objects[waiting],
	};
	struct fi_cntr_attr cntr_attr = { .wait_obj = FI_WAIT_UNSPEC };
	struct fi_av_attr av_attr = { .type = FI_AV_MAP };
	struct fi_eq_attr eq_attr = { .wait_obj = FI_WAIT_UNSPEC };
	struct fi_info *hints = hints_for(FI_MSG | FI_TAGGED | FI_SOURCE | FI_DIRECTED_RECV |
					  FI_MULTI_RECV | FI_RMA | FI_ATOMIC | more);
	size_t len = sizeof(f->name);

	memset(f, 0, sizeof(*f));
	f->waiting = waiting;
	if (port)
		hints->domain_attr->name = strdup(port);
	OK(fi_getinfo(VERSION, NULL, NULL, 0, hints, &f->info));
	fi_freeinfo(hints);
	OK(fi_fabric(f->info->fabric_attr, &f->fabric, NULL));
	OK(fi_domain(f->fabric, f->info, &f->domain, NULL));
	OK(fi_eq_open(f->fabric, &eq_attr, &f->eq, NULL));
	OK(fi_av_open(f->domain, &av_attr, &f->av, NULL));
	OK(fi_cq_open(f->domain, &cq_attr, &f->cq, NULL));
	OK(fi_cntr_open(f->domain, &cntr_attr, &f->sent, NULL));
	OK(fi_cntr_open(f->domain, &cntr_attr, &f->received, NULL));
	OK(fi_cntr_open(f->domain, &cntr_attr, &f->accessed, NULL));
	OK(fi_cntr_open(f->domain, &cntr_attr, &f->reached, NULL));
	OK(fi_endpoint(f->domain, f->info, &f->ep, NULL));
	CHECK(fi_enable(f->ep) == -FI_ENOAV);
	OK(fi_ep_bind(f->ep, &f->av->fid, 0));
	CHECK(fi_enable(f->ep) == -FI_ENOCQ);
	OK(fi_ep_bind(f->ep, &f->cq->fid, FI_TRANSMIT | FI_RECV));
	OK(fi_ep_bind(f->ep, &f->sent->fid, FI_SEND));
	OK(fi_ep_bind(f->ep, &f->received->fid, FI_RECV));
	OK(fi_ep_bind(f->ep, &f->accessed->fid, FI_READ | FI_WRITE));
	OK(fi_ep_bind(f->ep, &f->reached->fid, FI_REMOTE_READ | FI_REMOTE_WRITE));
	OK(fi_ep_bind(f->ep, &f->eq->fid, 0));
	CHECK(fi_recv(f->ep, f->name, 1, NULL, FI_ADDR_UNSPEC, NULL) == -FI_EOPBADSTATE);
	OK(fi_enable(f->ep));
	OK(fi_getname(&f->ep->fid, f->name, &len));
	CHECK(len == strlen(f->name) + 1);
}

void fit_close(struct fit *f)
{
	/* Nothing closes before what uses it. */
	CHECK(fi_close(&f->cq->fid) == -FI_EBUSY);
	CHECK(fi_close(&f->domain->fid) == -FI_EBUSY);
	OK(fi_close(&f->ep->fid));
	OK(fi_close(&f->eq->fid));
	OK(fi_close(&f->reached->fid));
	OK(fi_close(&f->accessed->fid));
	OK(fi_close(&f->received->fid));
	OK(fi_close(&f->sent->fid));
	OK(fi_close(&f->cq->fid));
	OK(fi_close(&f->av->fid));
	OK(fi_close(&f->domain->fid));
	OK(fi_close(&f->fabric->fid));
	fi_freeinfo(f->info);
}

fi_addr_t insert(struct fit *f, const char *name)
{
	fi_addr_t address;

	CHECK(fi_av_insert(f->av, name, 1, &address, 0, NULL) == 1);
	return address;
}

struct fid_mr *region(struct fit *f, void *at, size_t bytes, uint64_t access, uint64_t key)
{
	struct fid_mr *mr;

	OK(fi_mr_reg(f->domain, at, bytes, access, 0, key, 0, &mr, NULL));
	CHECK(fi_mr_key(mr) == key);
	return mr;
}

void closed(struct fid_mr *mr)
{
	OK(fi_close(&mr->fid));
}

double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* Reads one; waits for up to @ms as the test wants to. */
static bool read_one(struct fit *f, struct done *d, int ms)
{
	struct fi_cq_err_entry e = { 0 };
	struct fid *fids[] = { &f->cq->fid };
	struct pollfd p = { .events = POLLIN };
	ssize_t n;

	memset(d, 0, sizeof(*d));
	if (ms && f->waiting == FD && !fi_trywait(f->fabric, fids, 1)) {
		OK(fi_control(&f->cq->fid, FI_GETWAIT, &p.fd));
		poll(&p, 1, ms);
	}
	if (ms && f->waiting == SREAD)
		n = fi_cq_sreadfrom(f->cq, &d->entry, 1, &d->source, NULL, ms);
	else
		n = fi_cq_readfrom(f->cq, &d->entry, 1, &d->source);
	if (n == -FI_EAGAIN)
		return false;
	if (n == 1)
		return true;
	CHECK(n == -FI_EAVAIL);
	CHECK(fi_cq_readerr(f->cq, &e, 0) == 1);
	d->entry = (struct fi_cq_tagged_entry) {
		.op_context = e.op_context, .flags = e.flags, .len = e.len, .buf = e.buf,
		.data = e.data, .tag = e.tag,
	};
	d->err = e.err;
	d->prov_errno = e.prov_errno;
	d->olen = e.olen;
	d->source = e.src_addr;
	CHECK(d->err && strlen(fi_cq_strerror(f->cq, e.prov_errno, NULL, NULL, 0)));
	return true;
}

static void keep(struct fit *f, struct done *d)
{
	CHECK(f->count < ARRAY_SIZE(f->early));
	f->early[f->count++] = *d;
}

void progress(struct fit *f)
{
	struct done d;

	while (read_one(f, &d, 0))
		keep(f, &d);
}

static bool take_early(struct fit *f, void *context, struct done *d)
{
	unsigned int i;

	for (i = 0; i < f->count; i++) {
		if (f->early[i].entry.op_context != context)
			continue;
		*d = f->early[i];
		memmove(&f->early[i], &f->early[i + 1], (--f->count - i) * sizeof(*d));
		return true;
	}
	return false;
}

struct done completed_ever(struct fit *f, void *context)
{
	struct done d;

	while (!take_early(f, context, &d))
		if (read_one(f, &d, 1000))
			keep(f, &d);
	return d;
}

struct done completed(struct fit *f, void *context)
{
	double since = now();
	struct done d;

	while (!take_early(f, context, &d)) {
		CHECK(now() - since < SOON);
		if (read_one(f, &d, 1000))
			keep(f, &d);
	}
	return d;
}

struct done succeeded(struct fit *f, void *context)
{
	struct done d = completed(f, context);

	if (d.err)
		fprintf(stderr, "%s, %s\n", fi_strerror(d.err),
			fi_cq_strerror(f->cq, d.prov_errno, NULL, NULL, 0));
	CHECK(!d.err);
	return d;
}

int failed(struct fit *f, void *context)
{
	struct done d = completed(f, context);

	CHECK(d.err);
	return d.err;
}

bool is_completed(struct fit *f, void *context)
{
	struct done d;
	bool is;

	progress(f);
	is = take_early(f, context, &d);
	if (is)
		keep(f, &d);
	return is;
}

void fill(void *at, size_t bytes, unsigned int seed)
{
	uint8_t *p = at;
	size_t i;

	for (i = 0; i < bytes; i++)
		p[i] = seed * 31 + i * 7 + (i >> 9);
}

bool is_filled(const void *at, size_t bytes, unsigned int seed)
{
	const uint8_t *p = at;
	size_t i;

	for (i = 0; i < bytes; i++)
		if (p[i] != (uint8_t)(seed * 31 + i * 7 + (i >> 9)))
			return false;
	return true;
}
