/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Calls of the fuzzer: what each kind of ioctl means to ask for, as long as nothing of it is
 * changed.
 */
#ifndef WEFT_FUZZ_CALLS_H
#define WEFT_FUZZ_CALLS_H

#include "fuzz_round.h"
#include "weft_test.h"

union fz_arg {
	uint32_t size;
	uint32_t words[WT_PAGE / 4];
	uint8_t bytes[WT_PAGE];
	struct weft_port_info port;
	struct weft_link_info link;
	struct weft_chan_listen listen;
	struct weft_chan_connect connect;
	struct weft_chan_accept accept;
	struct weft_chan_info chan;
	struct weft_sock_listen sock_listen;
	struct weft_sock_connect sock_connect;
	struct weft_sock_accept sock_accept;
	struct weft_sock_info sock_info;
	struct weft_sock_shutdown sock_shutdown;
	struct weft_match_open match;
	struct weft_match_kick ring;
	struct weft_limits limits;
	struct weft_pd_alloc pd;
	struct weft_mr_reg mr;
	struct weft_mw_alloc mw;
	struct weft_cq_create cq;
	struct weft_srq_create srq;
	struct weft_qp_create qp;
	struct weft_qp_modify modify;
	struct weft_qp_query query;
	struct weft_destroy destroy;
	struct weft_kick kick;
	struct weft_cq_arm arm;
	struct weft_cq_wait wait;
	struct weft_vf_migrate migrate;
	struct weft_fabric_nodes nodes;
	struct weft_fabric_routes routes;
	struct weft_fabric_assignments assignments;
	struct weft_fabric_assignment assignment;
	struct weft_fabric_component component;
	struct weft_fabric_vh vh;
	struct weft_fabric_slot slot;
	struct weft_fabric_announce announce;
	struct weft_ep_open open;
	struct weft_ep_area area;
	struct weft_ep_free free;
	struct weft_ep_submit submit;
	struct weft_ep_reap reap;
};

/* What a machine has to have for a call to succeed. */
enum fz_need { FZ_NOTHING, FZ_VFS, FZ_FABRIC, FZ_MASTER, FZ_SLOTS, FZ_FUNCTIONS };

/* One ioctl, of any kind, and more or less right. */
void fz_call(struct fz_thread *t);
/* That ioctl, as it is, and counted. The size is filled in. 0 or a negative errno. */
long fz_do(struct fz_thread *t, struct fz_file *f, unsigned long cmd, union fz_arg *a);
/* One that makes sense, so that there is something to play with. */
void fz_make(struct fz_thread *t, struct fz_file *f, enum fz_kind kind, uint32_t where);
/* Brings two queue pairs to RTS, each the other's peer. */
void fz_connect(struct fz_thread *t, struct fz_file *const files[2],
		const struct fz_object ends[2]);
void fz_kick(struct fz_file *f, const struct fz_object *qp);

/* Prints the counts; false if a call never succeeded that could, or, if it is_whole, could not. */
bool fz_tell(const struct fz_machine *m, const struct fz_count *counts, bool is_whole);

/* Entries of a queue: few, mostly; memory of the machine is not what is tried here. */
uint32_t fz_entries(struct fz_rng *r);

/* What calls of a kind mean to ask for. Of channels and sockets: fuzz_channel.c. */
void fz_listen(struct fz_thread *t, struct fz_file *f, union fz_arg *a);
void fz_channel(struct fz_thread *t, struct fz_file *f, union fz_arg *a);
void fz_accept(struct fz_thread *t, struct fz_file *f, union fz_arg *a);
void fz_sock_connect(struct fz_thread *t, struct fz_file *f, union fz_arg *a);
void fz_sock_shutdown(struct fz_thread *t, struct fz_file *f, union fz_arg *a);

/* Of a matching interface: fuzz_matching.c. */
void fz_match(struct fz_thread *t, struct fz_file *f, union fz_arg *a);

/* Of the fabric, by what the machine is known to have: fuzz_fabric.c. */
void fz_nodes(struct fz_thread *t, struct fz_file *f, union fz_arg *a);
void fz_routes(struct fz_thread *t, struct fz_file *f, union fz_arg *a);
void fz_read(struct fz_thread *t, struct fz_file *f, union fz_arg *a);
void fz_replace(struct fz_thread *t, struct fz_file *f, union fz_arg *a);
void fz_assignment(struct fz_thread *t, struct fz_file *f, union fz_arg *a);
void fz_component(struct fz_thread *t, struct fz_file *f, union fz_arg *a);
void fz_vh(struct fz_thread *t, struct fz_file *f, union fz_arg *a);
void fz_slot(struct fz_thread *t, struct fz_file *f, union fz_arg *a);
void fz_announce(struct fz_thread *t, struct fz_file *f, union fz_arg *a);
bool fz_was_read(const union fz_arg *a);
bool fz_was_replaced(const union fz_arg *a);

/* Of virtual functions, likewise. */
void fz_migrate_dry(struct fz_thread *t, struct fz_file *f, union fz_arg *a);
void fz_migrate(struct fz_thread *t, struct fz_file *f, union fz_arg *a);
void fz_migrate_live(struct fz_thread *t, struct fz_file *f, union fz_arg *a);
bool fz_migrated_dry(const union fz_arg *a);
bool fz_migrated(const union fz_arg *a);
bool fz_migrated_live(const union fz_arg *a);

/* Of functions of endpoints, likewise: fuzz_endpoint.c. */
void fz_ep_open(struct fz_thread *t, struct fz_file *f, union fz_arg *a);
void fz_ep_area(struct fz_thread *t, struct fz_file *f, union fz_arg *a);
void fz_ep_free(struct fz_thread *t, struct fz_file *f, union fz_arg *a);
void fz_ep_submit(struct fz_thread *t, struct fz_file *f, union fz_arg *a);
void fz_ep_reap(struct fz_thread *t, struct fz_file *f, union fz_arg *a);

/*
 * Sequences that make sense: a channel is made; matching interfaces exchange messages; a
 * function is opened, and works; a virtual function moves.
 */
void fz_converse(struct fz_thread *t);
void fz_exchange(struct fz_thread *t);
void fz_work(struct fz_thread *t);
void fz_move(struct fz_thread *t);

#endif
