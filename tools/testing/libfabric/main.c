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
 *	fit until WAIT PORT TARGET OTHER BYTES
 *			sends to TARGET until that fails: says when the first has arrived, and at
 *			last how many have, the error, and seconds from the last success to it; then
 *			sends to OTHER
 *
 * WAIT is spin, sread or fd. The exit status is 0 if everything was as it has to be.
 */
#include "fit.h"

#define HELLO		BIT_ULL(60)
#define SERVED		7
#define LONGEST		1048576

static void refused(struct fi_info *hints)
{
	struct fi_info *info = NULL;

	CHECK(fi_getinfo(VERSION, NULL, NULL, 0, hints, &info) == -FI_ENODATA);
	fi_freeinfo(hints);
}

static int hints(void)
{
	struct fi_info *h, *info, *i;
	unsigned int found = 0;

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
	refused(hints_for(FI_RMA));
	refused(hints_for(FI_ATOMIC));
	h = hints_for(0);
	h->ep_attr->type = FI_EP_MSG;
	refused(h);
	h = hints_for(0);
	h->ep_attr->type = FI_EP_DGRAM;
	refused(h);
	h = hints_for(0);
	h->tx_attr->msg_order = FI_ORDER_SAS | FI_ORDER_RAW;
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
		found++;
	}
	fi_freeinfo(info);
	CHECK(found);
	printf("%u ports\n", found);
	return 0;
}

static enum waiting waiting_of(const char *word)
{
	return !strcmp(word, "sread") ? SREAD : !strcmp(word, "fd") ? FD : SPIN;
}

static const struct step *step_of(const char *name)
{
	const struct step *s = steps;

	while (s->name && strcmp(s->name, name))
		s++;
	CHECK(s->name);
	return s;
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

	fit_open(&f, argv[2], waiting_of(argv[1]), 0);
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

	fit_open(&f, argv[2], waiting_of(argv[1]), 0);
	target = insert(&f, argv[3]);
	POST(&f, fi_tinject(f.ep, f.name, NAME, target, HELLO | n));
	step->source(&f, target, n);
	fit_close(&f);
	return 0;
}

static int serve(char **argv)
{
	uint8_t *to = malloc(4 * LONGEST);
	struct done d;
	struct fit f;
	unsigned int n;
	int in[4];

	CHECK(to);
	fit_open(&f, argv[1], waiting_of(argv[0]), 0);
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

/* Sends one, and waits for it. */
static int send_one(struct fit *f, fi_addr_t to, uint8_t *from, size_t bytes, unsigned int n)
{
	struct done d;
	int context;
	long rc;

	fill(from, bytes, n);
	while ((rc = fi_tsenddata(f->ep, from, bytes, NULL, n, to, SERVED, &context)) == -FI_EAGAIN)
		progress(f);
	if (rc)
		return -rc;
	d = completed(f, &context);
	CHECK(d.entry.flags == (FI_TAGGED | FI_SEND));
	return d.err;
}

static int until(char **argv)
{
	size_t bytes = strtoul(argv[4], NULL, 0);
	unsigned int n, error = 0, arrived = 0;
	uint8_t *from = malloc(bytes + 1);
	fi_addr_t target, other;
	double last;
	struct fit f;

	CHECK(from);
	fit_open(&f, argv[1], waiting_of(argv[0]), 0);
	target = insert(&f, argv[2]);
	other = insert(&f, argv[3]);
	for (n = 0, last = now(); !error; n++) {
		error = send_one(&f, target, from, bytes, n);
		if (error)
			break;
		last = now();
		if (!arrived++)
			say("begun");
	}
	printf("%u %u %.3f\n", arrived, error, now() - last);
	for (n = 0; n < 20; n++)
		OK(send_one(&f, other, from, bytes, n));
	CHECK(fi_cntr_readerr(f.sent) == 1);
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
	if (argc == 7 && !strcmp(argv[1], "until"))
		return until(argv + 2);
	fprintf(stderr, "its source says how it is called\n");
	return 2;
}
