// SPDX-License-Identifier: GPL-2.0
/*
 * What a fuzzer asks of the fabric, and of virtual functions: for what there is, mostly.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "fuzz_calls.h"

/* An index of so many things, or the first that there is not. */
static uint32_t index_of(struct fz_thread *t, uint32_t count)
{
	return fz_below(&t->rng, count + 1);
}

void fz_nodes(struct fz_thread *t, struct fz_file *f, union fz_arg *a)
{
	(void)f;
	a->nodes.index = index_of(t, t->shared->machine->nodes);
}

void fz_routes(struct fz_thread *t, struct fz_file *f, union fz_arg *a)
{
	(void)f;
	a->routes.first = index_of(t, t->shared->machine->nodes);
}

void fz_assignment(struct fz_thread *t, struct fz_file *f, union fz_arg *a)
{
	(void)f;
	a->assignment.index = index_of(t, t->shared->machine->ve_count);
}

void fz_component(struct fz_thread *t, struct fz_file *f, union fz_arg *a)
{
	(void)f;
	a->component.index = index_of(t, t->shared->machine->nodes);
}

static uint64_t a_host(struct fz_thread *t)
{
	const struct fz_machine *m = t->shared->machine;

	return m->host_count ? m->hosts[fz_below(&t->rng, m->host_count)] : 0;
}

void fz_vh(struct fz_thread *t, struct fz_file *f, union fz_arg *a)
{
	(void)f;
	a->vh.root = fz_once_in(&t->rng, 2) ? 0 : a_host(t);
	a->vh.index = index_of(t, t->shared->machine->nodes);
}

void fz_slot(struct fz_thread *t, struct fz_file *f, union fz_arg *a)
{
	(void)f;
	a->slot.index = index_of(t, t->shared->machine->slot_count);
}

/* Where a component is, only withdrawing works. */
void fz_announce(struct fz_thread *t, struct fz_file *f, union fz_arg *a)
{
	const struct fz_machine *m = t->shared->machine;
	unsigned int n = m->slot_count ? fz_below(&t->rng, m->slot_count) : 0;
	const struct fm_slot *slot = &m->slots[n];

	(void)f;
	a->announce.flags = fz_once_in(&t->rng, 2) ? WEFT_ANNOUNCE_WITHDRAW : 0;
	a->announce.hwid = slot->hwid;
	a->announce.port = slot->port;
}

void fz_read(struct fz_thread *t, struct fz_file *f, union fz_arg *a)
{
	(void)f;
	a->assignments.text = (uintptr_t)t->list;
	a->assignments.bytes = fz_once_in(&t->rng, 8) ? fz_below(&t->rng, 64) :
							WEFT_ASSIGNMENTS_BYTES;
}

bool fz_was_read(const union fz_arg *a)
{
	return !a->assignments.flags;
}

/* The host that has the virtual endpoint, mostly: a function that is taken away can do no work. */
static uint64_t owner(struct fz_thread *t, const struct fm_ve *ve)
{
	const struct fz_machine *m = t->shared->machine;
	bool any = fz_once_in(&t->rng, 8);

	for (unsigned int n = 0; n < m->given_count && !any; n++)
		if (m->given[n].endpoint == ve->endpoint && m->given[n].ve == ve->ve)
			return m->given[n].host;
	return a_host(t);
}

void fz_replace(struct fz_thread *t, struct fz_file *f, union fz_arg *a)
{
	const struct fz_machine *m = t->shared->machine;
	struct fz_rng *r = &t->rng;
	char *text = (char *)t->list;
	uint32_t version = 0;
	size_t length = 0;

	fm_assignments(fz_fd(f), 0, text, WEFT_ASSIGNMENTS_BYTES, &version);
	for (unsigned int n = 0; n < m->ve_count; n++) {
		const struct fm_ve *ve = &m->ves[n];
		uint64_t host = owner(t, ve);

		if (!fz_once_in(r, 8))
			length += snprintf(text + length, WEFT_ASSIGNMENTS_BYTES - length,
					   "%llx.%x %llx\n", (unsigned long long)ve->endpoint,
					   ve->ve, (unsigned long long)host);
	}
	if (length && fz_once_in(r, 8))
		text[fz_below(r, length)] = fz_next(r);
	a->assignments.flags = WEFT_ASSIGNMENTS_SET;
	a->assignments.text = (uintptr_t)text;
	a->assignments.bytes = length;
	a->assignments.version = version;
}

bool fz_was_replaced(const union fz_arg *a)
{
	return a->assignments.flags == WEFT_ASSIGNMENTS_SET;
}

/* From one of the first two virtual functions of a port to the other, mostly. */
static void migrate(struct fz_thread *t, struct fz_file *f, union fz_arg *a, uint32_t flags)
{
	const struct fz_machine *m = t->shared->machine;
	struct fz_rng *r = &t->rng;

	a->migrate.flags = flags;
	a->migrate.vf = fz_below(r, fz_once_in(r, 8) ? m->vfs + 1 : 2);
	a->migrate.target_fd = fz_once_in(r, 8) ? fz_fd(fz_any_file(t)) : fz_fd(f);
	a->migrate.target_vf = fz_once_in(r, 8) ? index_of(t, m->vfs) : !a->migrate.vf;
	a->migrate.timeout_ms = 1 + fz_below(r, 300);
}

void fz_migrate_dry(struct fz_thread *t, struct fz_file *f, union fz_arg *a)
{
	migrate(t, f, a, WEFT_MIGRATE_DRY_RUN |
		(fz_once_in(&t->rng, 2) ? WEFT_MIGRATE_LIVE : 0));
}

bool fz_migrated_dry(const union fz_arg *a)
{
	return a->migrate.flags & WEFT_MIGRATE_DRY_RUN && !a->migrate.obstacles;
}

void fz_migrate(struct fz_thread *t, struct fz_file *f, union fz_arg *a)
{
	migrate(t, f, a, fz_once_in(&t->rng, 4) ? 0 : WEFT_MIGRATE_STOP);
}

bool fz_migrated(const union fz_arg *a)
{
	return !(a->migrate.flags & WEFT_MIGRATE_LIVE) &&
	       a->migrate.outcome == WEFT_MIGRATE_MOVED;
}

void fz_migrate_live(struct fz_thread *t, struct fz_file *f, union fz_arg *a)
{
	migrate(t, f, a, WEFT_MIGRATE_LIVE);
}

bool fz_migrated_live(const union fz_arg *a)
{
	return a->migrate.flags == WEFT_MIGRATE_LIVE &&
	       a->migrate.outcome == WEFT_MIGRATE_MOVED;
}

/* Moves a function that nothing stands against, with its users, or without. */
void fz_move(struct fz_thread *t)
{
	const struct fz_machine *m = t->shared->machine;
	uint32_t flags = fz_once_in(&t->rng, 2) ? WEFT_MIGRATE_LIVE : WEFT_MIGRATE_STOP;
	struct fz_file *f = fz_any_file(t);
	uint32_t vf = fz_below(&t->rng, 2);

	if (m->vfs < 2)
		return;
	fz_open(f, m->vf_port, O_RDWR);
	for (int n = 0; n < 2; n++, vf = !vf) {
		union fz_arg a = { 0 };

		migrate(t, f, &a, WEFT_MIGRATE_DRY_RUN | (flags & WEFT_MIGRATE_LIVE));
		a.migrate.vf = vf;
		a.migrate.target_vf = !vf;
		a.migrate.target_fd = fz_fd(f);
		a.migrate.timeout_ms = 1000;
		if (fz_do(t, f, WEFT_VF_MIGRATE, &a) || a.migrate.obstacles)
			continue;
		a.migrate.flags = flags;
		fz_calm(true);
		fz_do(t, f, WEFT_VF_MIGRATE, &a);
		fz_calm(false);
	}
}
