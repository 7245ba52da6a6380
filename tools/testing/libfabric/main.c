// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of libfabric's provider weft, by programs of two hosts or of one:
 *
 *	fit hints	which endpoints there are for which hints
 *	fit target STEP WAIT PORT
 *			says its address, and does the target's part of a step
 *	fit source STEP WAIT PORT TARGET N
 *			does the part of its N-th source
 *	fit serve WAIT PORT
 *			says its address, and receives until it is killed
 *	fit until WAIT PORT TARGET OTHER BYTES HOW
 *			sends to TARGET until that fails: says when the first has arrived, and at
 *			last how many have, the error, and seconds from the last success to it; then
 *			sends to OTHER. HOW is send; or write, read, add: to its region
 *
 * WAIT is spin, sread or fd. The exit status is 0 if everything was as it has to be.
 */
#include "fit.h"

#define HELLO		BIT_ULL(60)
#define SERVED		7
#define LONGEST		1048576

static void found(struct fi_info *hints)
{
	struct fi_info *info;

	OK(fi_getinfo(VERSION, NULL, NULL, 0, hints, &info));
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

static void refused(struct fi_info *hints)
{
	struct fi_info *info = NULL;

	CHECK(fi_getinfo(VERSION, NULL, NULL, 0, hints, &info) == -FI_ENODATA);
	fi_freeinfo(hints);
}

static int hints(void)
{
	struct fi_info *h, *info, *i;
	unsigned int ports = 0;

	h = hints_for(FI_TAGGED | FI_DIRECTED_RECV);
	h->domain_attr->cq_data_size = sizeof(int);
	OK(fi_getinfo(VERSION, NULL, NULL, 0, h, &info));
	CHECK(info->domain_attr->cq_data_size == 8 && info->ep_attr->type == FI_EP_RDM);
	CHECK(!(info->domain_attr->mr_mode & (FI_MR_LOCAL | FI_MR_ENDPOINT)));
	CHECK(info->domain_attr->control_progress == FI_PROGRESS_AUTO);
	CHECK(info->domain_attr->data_progress == FI_PROGRESS_AUTO);
	CHECK(!strncmp(info->src_addr, "weft://", 7));
	CHECK(info->src_addrlen == strlen(info->src_addr) + 1);
	CHECK(info->addr_format == FI_ADDR_STR && !(info->caps & (FI_RMA | FI_ATOMIC)));
	CHECK(!strcmp(info->fabric_attr->prov_name, "weft"));
	fi_freeinfo(info);
	OK(fi_getinfo(VERSION, "weft://1/2/3", NULL, 0, h, &info));
	CHECK(!strcmp(info->dest_addr, "weft://1/2/3") && info->dest_addrlen == 13);
	fi_freeinfo(info);
	CHECK(fi_getinfo(VERSION, "10.0.0.1", NULL, 0, h, &info) == -FI_ENODATA);
	h->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	OK(fi_getinfo(VERSION, NULL, NULL, 0, h, &info));
	CHECK(info->domain_attr->data_progress == FI_PROGRESS_MANUAL);
	fi_freeinfo(info);
	fi_freeinfo(h);
	found(hints_for(FI_RMA));
	found(hints_for(FI_RMA | FI_RMA_EVENT | FI_REMOTE_WRITE));
	/* What Open MPI wants for windows, and can do. */
	h = hints_for(FI_RMA | FI_ATOMIC);
	h->domain_attr->mr_mode = FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR |
				  FI_MR_ENDPOINT;
	h->tx_attr->op_flags = FI_DELIVERY_COMPLETE | FI_COMPLETION;
	h->tx_attr->iov_limit = 1;
	found(h);
	/* And MPICH. */
	h = hints_for(FI_RMA | FI_WRITE | FI_READ | FI_REMOTE_WRITE | FI_REMOTE_READ | FI_ATOMIC |
		      FI_TAGGED | FI_DIRECTED_RECV | FI_MSG | FI_MULTI_RECV);
	h->tx_attr->msg_order = FI_ORDER_SAS | FI_ORDER_ATOMIC_RAR | FI_ORDER_ATOMIC_RAW |
				FI_ORDER_ATOMIC_WAR | FI_ORDER_ATOMIC_WAW;
	h->tx_attr->op_flags = FI_COMPLETION | FI_DELIVERY_COMPLETE;
	found(h);
	h = hints_for(FI_RMA);
	h->tx_attr->rma_iov_limit = 2;
	refused(h);
	h = hints_for(FI_RMA);
	h->domain_attr->mr_key_size = 8;
	refused(h);
	h = hints_for(0);
	h->ep_attr->type = FI_EP_MSG;
	refused(h);
	h = hints_for(0);
	h->ep_attr->type = FI_EP_DGRAM;
	refused(h);
	h = hints_for(0);
	h->tx_attr->msg_order = FI_ORDER_SAS | FI_ORDER_SAW;
	refused(h);
	h = hints_for(FI_RMA);
	h->tx_attr->msg_order = FI_ORDER_RMA_WAR;
	refused(h);
	h = hints_for(0);
	h->domain_attr->name = strdup("eth0");
	refused(h);
	/* Whatever is wanted, no layer is over it. */
	OK(fi_getinfo(VERSION, NULL, NULL, 0, NULL, &info));
	for (i = info; i; i = i->next) {
		if (!strstr(i->fabric_attr->prov_name, "weft"))
			continue;
		CHECK(!strcmp(i->fabric_attr->prov_name, "weft"));
		CHECK((i->caps & (FI_RMA | FI_ATOMIC)) == (FI_RMA | FI_ATOMIC));
		CHECK(!(i->caps & FI_RMA_EVENT) && !i->domain_attr->mr_mode);
		CHECK(i->tx_attr->rma_iov_limit == 1 && i->domain_attr->mr_key_size == 7);
		CHECK(i->ep_attr->max_order_waw_size == 4096);
		ports++;
	}
	fi_freeinfo(info);
	CHECK(ports);
	printf("%u ports\n", ports);
	return 0;
}

static enum waiting waiting_of(const char *word)
{
	return !strcmp(word, "sread") ? SREAD : !strcmp(word, "fd") ? FD : SPIN;
}

static void say(const char *line)
{
	printf("%s\n", line);
	fflush(stdout);
}

static int target(char **argv)
{
	const struct step *step = step_of(argv[0]);
	fi_addr_t sources[2];
	char name[NAME];
	unsigned int n;
	struct fit f;
	int context;

	fit_open(&f, argv[2], waiting_of(argv[1]), step->more);
	say(f.name);
	for (n = 0; n < step->sources; n++) {
		POST(&f, fi_trecv(f.ep, name, NAME, NULL, FI_ADDR_UNSPEC, HELLO | n, 0, &context));
		/* It is in no address vector yet. */
		CHECK(succeeded(&f, &context).source == FI_ADDR_NOTAVAIL);
		sources[n] = insert(&f, name);
	}
	step->target(&f, sources);
	fit_close(&f);
	return 0;
}

static int source(char **argv)
{
	const struct step *step = step_of(argv[0]);
	unsigned int n = atoi(argv[4]);
	fi_addr_t target;
	struct fit f;

	fit_open(&f, argv[2], waiting_of(argv[1]), step->more);
	target = insert(&f, argv[3]);
	POST(&f, fi_tinject(f.ep, f.name, NAME, target, HELLO | n));
	step->source(&f, target, n);
	fit_close(&f);
	return 0;
}

static int serve(char **argv)
{
	uint8_t *to = malloc(4 * LONGEST), *reached = calloc(1, LONGEST);
	struct done d;
	struct fit f;
	unsigned int n;
	int in[4];

	CHECK(to && reached);
	fit_open(&f, argv[1], waiting_of(argv[0]), 0);
	region(&f, reached, LONGEST, FI_REMOTE_READ | FI_REMOTE_WRITE, SERVED);
	say(f.name);
	for (n = 0;; n++) {
		if (n >= 4) {
			d = completed_ever(&f, &in[n % 4]);
			/* Of one that has failed there may be no bytes. */
			CHECK(d.err || is_filled(to + n % 4 * LONGEST, d.entry.len, d.entry.data));
		}
		POST(&f, fi_trecv(f.ep, to + n % 4 * LONGEST, LONGEST, NULL, FI_ADDR_UNSPEC, SERVED,
				  0, &in[n % 4]));
	}
}

/* Sends one, or accesses the region, and waits for it. */
static int send_one(struct fit *f, fi_addr_t to, uint8_t *from, size_t bytes, unsigned int n,
		    const char *how)
{
	uint64_t flags = FI_TAGGED | FI_SEND;
	struct done d;
	int context;
	long rc;

	if (strcmp(how, "read"))
		fill(from, bytes, n);
	do {
		if (!strcmp(how, "write")) {
			flags = FI_RMA | FI_WRITE;
			rc = fi_write(f->ep, from, bytes, NULL, to, 0, SERVED, &context);
		} else if (!strcmp(how, "read")) {
			flags = FI_RMA | FI_READ;
			rc = fi_read(f->ep, from, bytes, NULL, to, 0, SERVED, &context);
		} else if (!strcmp(how, "add")) {
			flags = FI_ATOMIC | FI_WRITE;
			rc = fi_atomic(f->ep, from, bytes / 8, NULL, to, 0, SERVED, FI_UINT64,
				       FI_SUM, &context);
		} else {
			rc = fi_tsenddata(f->ep, from, bytes, NULL, n, to, SERVED, &context);
		}
		if (rc == -FI_EAGAIN)
			progress(f);
	} while (rc == -FI_EAGAIN);
	if (rc)
		return -rc;
	d = completed(f, &context);
	CHECK(d.entry.flags == flags);
	return d.err;
}

static int until(char **argv)
{
	size_t bytes = strtoul(argv[4], NULL, 0);
	unsigned int n, error = 0, arrived = 0;
	uint8_t *from = malloc(bytes + 1);
	const char *how = argv[5];
	fi_addr_t target, other;
	struct fid_cntr *cntr;
	double last;
	struct fit f;

	CHECK(from);
	fit_open(&f, argv[1], waiting_of(argv[0]), 0);
	target = insert(&f, argv[2]);
	other = insert(&f, argv[3]);
	for (n = 0, last = now(); !error; n++) {
		error = send_one(&f, target, from, bytes, n, how);
		if (error)
			break;
		last = now();
		if (!arrived++)
			say("begun");
	}
	printf("%u %u %.3f\n", arrived, error, now() - last);
	for (n = 0; n < 20; n++)
		OK(send_one(&f, other, from, bytes, n, how));
	cntr = strcmp(how, "send") ? f.accessed : f.sent;
	CHECK(fi_cntr_readerr(cntr) == 1);
	fit_close(&f);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "hints"))
		return hints();
	if (argc == 5 && !strcmp(argv[1], "target"))
		return target(argv + 2);
	if (argc == 7 && !strcmp(argv[1], "source"))
		return source(argv + 2);
	if (argc == 4 && !strcmp(argv[1], "serve"))
		return serve(argv + 2);
	if (argc == 8 && !strcmp(argv[1], "until"))
		return until(argv + 2);
	fprintf(stderr, "its source says how it is called\n");
	return 2;
}
