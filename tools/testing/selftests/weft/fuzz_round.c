// SPDX-License-Identifier: GPL-2.0
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "fuzz_calls.h"
#include "weft_test.h"

/* A thread that waits in the kernel is woken by a signal so often, and goes on. */
#define NUDGE_NS 50000000L

/* What is written goes where a page may be missing: then the thread returns here. */
static __thread sigjmp_buf fault;
static __thread volatile sig_atomic_t writing;

uint64_t fz_next(struct fz_rng *r)
{
	return wt_random(&r->state);
}

uint32_t fz_below(struct fz_rng *r, uint32_t n)
{
	return (fz_next(r) >> 32) * n >> 32;
}

bool fz_once_in(struct fz_rng *r, uint32_t n)
{
	return fz_below(r, n) == 0;
}

uint64_t fz_number(struct fz_rng *r)
{
	switch (fz_below(r, 8)) {
	case 0:
		return 0;
	case 1:
		return fz_below(r, 16);
	case 2:
		return (1ULL << fz_below(r, 64)) - fz_below(r, 2);
	case 3:
		return 0ULL - fz_below(r, 16);
	case 4:
		return 0xffffffffULL - fz_below(r, 4);
	case 5:
		return fz_below(r, 1 << 20) * 4096ULL;
	case 6:
		return fz_below(r, 1 << 16);
	default:
		return fz_next(r);
	}
}

int fz_fd(struct fz_file *f)
{
	int fd;

	pthread_mutex_lock(&f->lock);
	fd = f->fd;
	pthread_mutex_unlock(&f->lock);
	return fd;
}

void fz_unlock(struct fz_shared *s)
{
	for (int i = 0; i < FZ_FILES; i++)
		pthread_mutex_init(&s->files[i].lock, NULL);
}

struct fz_object fz_get(struct fz_file *f, enum fz_kind kind, uint32_t place)
{
	struct fz_object o;

	pthread_mutex_lock(&f->lock);
	o = f->kept[kind][place];
	pthread_mutex_unlock(&f->lock);
	return o;
}

void fz_keep(struct fz_file *f, enum fz_kind kind, uint32_t place,
	     const struct fz_object *object)
{
	pthread_mutex_lock(&f->lock);
	f->kept[kind][place] = *object;
	pthread_mutex_unlock(&f->lock);
}

struct fz_file *fz_any_file(struct fz_thread *t)
{
	return &t->shared->files[fz_below(&t->rng, FZ_FILES)];
}

struct fz_object fz_any(struct fz_thread *t, struct fz_file *f, enum fz_kind kind)
{
	return fz_get(f, kind, fz_below(&t->rng, FZ_KEPT));
}

struct fz_file *fz_user(struct fz_thread *t)
{
	struct fz_file *last = &t->shared->files[FZ_FILES - FZ_USERS];

	return fz_once_in(&t->rng, 4) ? fz_any_file(t) : last + fz_below(&t->rng, FZ_USERS);
}

void fz_calm(bool calm)
{
	sigset_t nudges;

	sigemptyset(&nudges);
	sigaddset(&nudges, SIGALRM);
	pthread_sigmask(calm ? SIG_BLOCK : SIG_UNBLOCK, &nudges, NULL);
}

void fz_open(struct fz_file *f, unsigned int port, int flags)
{
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/dev/weft%u", port);
	fd = open(path, flags | O_CLOEXEC);
	pthread_mutex_lock(&f->lock);
	if (f->fd >= 0)
		close(f->fd);
	f->fd = fd;
	f->port = port;
	memset(f->kept, 0, sizeof(f->kept));
	pthread_mutex_unlock(&f->lock);
}

void fz_touch(struct fz_thread *t, void (*what)(struct fz_thread *t, void *arg), void *arg)
{
	writing = 1;
	if (!sigsetjmp(fault, 0))
		what(t, arg);
	writing = 0;
}

/* A file that is closed, or open; what was there is closed first. */
static void reopen(struct fz_thread *t, struct fz_file *f)
{
	const struct fz_machine *m = t->shared->machine;
	struct fz_rng *r = &t->rng;
	/* The first two have each other as peers. */
	unsigned int port = fz_below(r, fz_once_in(r, 8) ? m->ports : 2);
	/* Those that wait are nudged, but most of the time none waits. */
	int flags = (fz_once_in(r, 16) ? 0 : O_NONBLOCK) |
		    (fz_once_in(r, 16) ? O_RDONLY : O_RDWR);

	fz_open(f, port, flags);
	if (fz_once_in(r, 3))
		return;
	for (enum fz_kind kind = 0; kind < FZ_AREA; kind++)
		for (uint32_t where = 0; where < FZ_KEPT; where++)
			fz_make(t, f, kind, where);
}

static void drop_map(struct fz_map *m)
{
	if (m->at)
		munmap(m->at, m->bytes);
	m->at = NULL;
}

/* Maps something that is there, or an offset that means nothing. */
static void map(struct fz_thread *t)
{
	struct fz_rng *r = &t->rng;
	struct fz_map *m = &t->maps[fz_below(r, FZ_MAPS)];
	struct fz_file *f = fz_any_file(t);
	enum fz_kind kind = FZ_CQ + fz_below(r, FZ_KINDS - FZ_CQ);
	struct fz_object o = fz_any(t, f, kind);
	uint64_t offset = o.offset, bytes = o.bytes;
	int prot = PROT_READ | PROT_WRITE, flags = MAP_SHARED;
	int fd = fz_fd(f);

	drop_map(m);
	if (kind == FZ_QP && fz_once_in(r, 4)) {
		offset = fz_once_in(r, 2) ? o.kick_page : o.kick;
		bytes = WT_PAGE;
	}
	if (fz_once_in(r, 3)) {
		struct weft_chan_info info = { .size = sizeof(info) };

		/* Of a channel, if it is one. */
		if (!wt_ioctl(fd, WEFT_CHAN_INFO, &info)) {
			const uint64_t places[] = {
				info.area_offset, info.window_offset, info.status_offset,
				info.user_offset, info.kick_offset,
			};
			uint32_t which = fz_below(r, 5);

			offset = places[which];
			bytes = which < 2 ? info.area_bytes : WT_PAGE;
		}
	}
	switch (fz_below(r, 16)) {
	case 0:
		offset = fz_number(r) & ~(WT_PAGE - 1);
		break;
	case 1:
		offset += (uint64_t)fz_below(r, 8) << 12;
		break;
	case 2:
		bytes = (uint64_t)fz_below(r, 64) << 12;
		break;
	case 3:
		prot = fz_below(r, 8);
		break;
	case 4:
		flags = MAP_PRIVATE;
		break;
	}
	/* What is longer is refused anyway, or takes too long to write. */
	if (!bytes || bytes > 1 << 23)
		bytes = WT_PAGE;
	m->at = mmap(NULL, bytes, prot, flags, fd, offset);
	if (m->at == MAP_FAILED)
		m->at = NULL;
	m->bytes = bytes;
	m->kind = kind;
	m->object = o;
}

/* Work requests that could be meant, by a queue of one file to another's. */
static void write_request(struct fz_thread *t, struct fz_map *m, struct fz_file *f,
			  struct fz_file *peer)
{
	struct fz_rng *r = &t->rng;
	uint32_t which = m->kind == FZ_QP ? fz_below(r, 2) : 1;
	struct fz_object *o = &m->object;
	volatile struct weft_queue_ctl *ctl = (void *)(m->at + o->at[which]);
	struct fz_object from = fz_any(t, f, FZ_MR), to = fz_any(t, peer, FZ_MR);
	uint32_t count = 1 + fz_below(r, 32), sges = 1 + fz_below(r, 4);
	uint64_t posted = ctl->posted;

	if (!o->entries[which] || o->at[which] + WEFT_QUEUE_ENTRIES_AT +
	    (uint64_t)o->entries[which] * o->stride[which] > m->bytes)
		return;
	for (uint32_t n = 0; n < count; n++) {
		uint8_t *at = (uint8_t *)ctl + WEFT_QUEUE_ENTRIES_AT +
			      (posted + n) % o->entries[which] * o->stride[which];
		struct weft_send_wqe send = {
			.wr_id = fz_next(r), .opcode = 1 + fz_below(r, 9),
			.flags = fz_next(r) & (fz_once_in(r, 8) ? 15 : 9), .count = sges,
			.imm = fz_below(r, 256), .remote_to = to.offset,
			.remote_stag = to.number,
			.access = fz_below(r, 16), .arg0 = to.offset,
			.arg1 = fz_below(r, 2) * 4096,
		};
		bool atomic = send.opcode == WEFT_OP_FETCH_ADD ||
			      send.opcode == WEFT_OP_CMP_SWAP;
		struct weft_recv_wqe recv = { .wr_id = fz_next(r), .count = sges };
		struct weft_sge list[4];

		if (atomic) {
			send.remote_to = (send.remote_to + 7) & ~7ULL;
			send.count = 1;
		}
		if (send.opcode == WEFT_OP_BIND_MW || send.opcode == WEFT_OP_LOCAL_INV)
			send.remote_stag = fz_any(t, f, FZ_MW).number;
		if (send.opcode == WEFT_OP_BIND_MW)
			send.count = 1;
		if (send.opcode == WEFT_OP_LOCAL_INV)
			send.count = 0;
		if (fz_once_in(r, 64))
			send.remote_to += fz_number(r);
		for (int i = 0; i < 4; i++)
			list[i] = (struct weft_sge) {
				.to = from.offset + fz_below(r, 64),
				.length = fz_once_in(r, 8) ? (uint32_t)from.bytes :
							     fz_below(r, 256),
				.stag = from.number,
			};
		if (atomic)
			list[0].length = 8;
		if (fz_once_in(r, 64))
			list[fz_below(r, 4)].length = fz_number(r);
		if (which) {
			memcpy(at, &recv, sizeof(recv));
			memcpy(at + sizeof(recv), list, sges * sizeof(*list));
		} else {
			memcpy(at, &send, sizeof(send));
			memcpy(at + sizeof(send), list, sges * sizeof(*list));
		}
		if (fz_once_in(r, 64))
			at[fz_below(r, 64)] = fz_next(r);
	}
	__atomic_store_n(&ctl->posted, posted + count, __ATOMIC_RELEASE);
}

static void write_garbage(struct fz_thread *t, struct fz_map *m)
{
	struct fz_rng *r = &t->rng;
	uint32_t at = fz_below(r, m->bytes / 8), count = fz_below(r, 64);

	/* The head is what matters most. */
	if (fz_once_in(r, 4))
		at = fz_below(r, 32);
	for (uint32_t i = 0; i < count; i++) {
		uint64_t number = fz_once_in(r, 2) ? fz_number(r) : fz_next(r);

		if ((uint64_t)(at + i) * 8 < m->bytes)
			((volatile uint64_t *)m->at)[at + i] = number;
	}
}

static void write_something(struct fz_thread *t, void *arg)
{
	struct fz_map *m = arg;

	if (fz_below(&t->rng, 8) < 5 && (m->kind == FZ_QP || m->kind == FZ_SRQ))
		write_request(t, m, fz_any_file(t), fz_any_file(t));
	else
		write_garbage(t, m);
}

static void write_map(struct fz_thread *t)
{
	struct fz_map *m = &t->maps[fz_below(&t->rng, FZ_MAPS)];

	if (m->at)
		fz_touch(t, write_something, m);
}

/* An end of a queue pair, and the other one. */
struct joined {
	struct fz_map map;
	struct fz_file *file, *peer;
};

static void write_joined(struct fz_thread *t, void *arg)
{
	struct joined *end = arg;

	write_request(t, &end->map, end->file, end->peer);
}

/*
 * Two queue pairs of different ports meet, with requests that make sense by and large.
 * Other threads close, reset, map and write them meanwhile.
 */
static void traffic(struct fz_thread *t)
{
	struct fz_file *files[] = { fz_any_file(t), fz_any_file(t) };
	struct joined joined[2] = { 0 };
	struct fz_object ends[2];

	for (int n = 0; n < 8 && files[0]->port == files[1]->port; n++)
		files[1] = fz_any_file(t);
	for (int i = 0; i < 2; i++)
		ends[i] = fz_any(t, files[i], FZ_QP);
	if (!fz_once_in(&t->rng, 4))
		fz_connect(t, files, ends);
	for (int i = 0; i < 2; i++) {
		struct fz_map *m = &joined[i].map;

		joined[i].file = files[i];
		joined[i].peer = files[!i];
		*m = (struct fz_map) { .bytes = ends[i].bytes, .kind = FZ_QP, .object = ends[i] };
		if (!m->bytes)
			continue;
		m->at = mmap(NULL, m->bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
			     fz_fd(files[i]), ends[i].offset);
		if (m->at == MAP_FAILED)
			m->at = NULL;
	}
	for (uint32_t n = 2 + fz_below(&t->rng, 6); n; n--) {
		if (joined[n % 2].map.at)
			fz_touch(t, write_joined, &joined[n % 2]);
		fz_kick(files[0], &ends[0]);
		fz_kick(files[1], &ends[1]);
	}
	for (int i = 0; i < 2; i++)
		drop_map(&joined[i].map);
}

static void change_map(struct fz_thread *t)
{
	struct fz_rng *r = &t->rng;
	struct fz_map *m = &t->maps[fz_below(r, FZ_MAPS)];
	uint32_t how = fz_below(r, 6), part = fz_below(r, 16);
	size_t at = part * WT_PAGE;

	if (!m->at || at >= m->bytes)
		return;
	switch (how) {
	case 0:
		munmap(m->at + at, WT_PAGE);
		break;
	case 1:
		mprotect(m->at + at, m->bytes - at, PROT_READ);
		break;
	case 2:
		madvise(m->at, m->bytes, MADV_DONTNEED);
		break;
	case 3:
		madvise(m->at, m->bytes, MADV_REMOVE);
		break;
	case 4: {
		void *moved = mremap(m->at, m->bytes, m->bytes + WT_PAGE, MREMAP_MAYMOVE);

		if (moved != MAP_FAILED) {
			m->at = moved;
			m->bytes += WT_PAGE;
		}
		break;
	}
	default:
		drop_map(m);
	}
}

/* What else can be done with a file. */
static void other_call(struct fz_thread *t)
{
	struct fz_rng *r = &t->rng;
	uint64_t number = fz_number(r);
	int fd = fz_fd(fz_any_file(t));
	struct pollfd p = { .fd = fd, .events = number };

	switch (fz_below(r, 8)) {
	/* Of a socket; others have no bytes. What cannot be had now is cut short by the nudge. */
	case 0:
		(void)!read(fd, t->arg, fz_below(r, 2 * WT_PAGE));
		break;
	case 1:
		(void)!write(fd, t->arg, fz_below(r, 2 * WT_PAGE));
		break;
	case 2:
		lseek(fd, number, SEEK_SET);
		break;
	case 3:
		fcntl(fd, F_SETFL, (number & 1 ? O_NONBLOCK : 0) | (number & 2 ? FASYNC : 0));
		break;
	case 4:
		fsync(fd);
		break;
	case 5: {
		int copy = fcntl(fd, F_DUPFD_CLOEXEC, 64);

		if (copy >= 0)
			close(copy);
		break;
	}
	default:
		poll(&p, 1, number & 1);
	}
}

/* Memory that is registered goes away under it, and comes back. */
static void lose_memory(struct fz_thread *t)
{
	struct fz_rng *r = &t->rng;
	size_t at = fz_below(r, FZ_MEM / WT_PAGE) * WT_PAGE;
	size_t bytes = (1 + fz_below(r, 16)) * WT_PAGE;
	uint8_t *from = t->shared->mem + at;

	if (at + bytes > FZ_MEM)
		return;
	if (fz_once_in(r, 2))
		madvise(from, bytes, MADV_DONTNEED);
	else
		mmap(from, bytes, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

static void on_nudge(int number)
{
	(void)number;
}

static timer_t nudge(void)
{
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGALRM };
	struct itimerspec often = {
		.it_value.tv_nsec = NUDGE_NS, .it_interval.tv_nsec = NUDGE_NS,
	};
	timer_t timer;

	event._sigev_un._tid = syscall(SYS_gettid);
	if (timer_create(CLOCK_MONOTONIC, &event, &timer))
		abort();
	timer_settime(timer, 0, &often, NULL);
	return timer;
}

/* A child with everything that its parent has, for a while. */
static void fork_child(struct fz_thread *t)
{
	uint32_t calls = fz_below(&t->rng, 16);
	pid_t child = fork();

	if (child == 0) {
		nudge();
		fz_unlock(t->shared);
		/* That of the parent. */
		t->trace = NULL;
		while (calls--) {
			fz_call(t);
			write_map(t);
		}
		_exit(0);
	}
	if (child > 0)
		while (waitpid(child, NULL, 0) < 0)
			;
}

static void step(struct fz_thread *t)
{
	struct fz_rng *r = &t->rng;
	uint32_t what = fz_below(r, 1024);

	if (what < 546)
		fz_call(t);
	else if (what < 550)
		fz_exchange(t);
	else if (what < 780)
		write_map(t);
	else if (what < 860)
		map(t);
	else if (what < 890)
		change_map(t);
	else if (what < 940)
		traffic(t);
	else if (what < 980)
		reopen(t, fz_any_file(t));
	else if (what < 1010)
		other_call(t);
	else if (what < 1012)
		lose_memory(t);
	else if (what < 1014)
		fz_move(t);
	else if (what < 1017)
		fz_work(t);
	else if (what < 1020)
		fz_converse(t);
	else
		fork_child(t);
}

static void on_fault(int number, siginfo_t *info, void *context)
{
	(void)context;
	if (writing) {
		writing = 0;
		siglongjmp(fault, 1);
	}
	/* A fault of the program's own. */
	signal(number, SIG_DFL);
	(void)info;
}

struct work {
	struct fz_thread thread;
	unsigned int steps;
	pthread_t id;
};

static void *work(void *arg)
{
	struct work *w = arg;
	timer_t timer = nudge();

	if (w->thread.shared->cover)
		w->thread.trace = fc_trace();
	while (w->steps--) {
		/* However much a step draws, the next one begins where it would anyway. */
		uint64_t then = fz_next(&w->thread.rng);

		step(&w->thread);
		w->thread.rng.state = then;
	}
	for (int i = 0; i < FZ_MAPS; i++)
		drop_map(&w->thread.maps[i]);
	timer_delete(timer);
	return NULL;
}

static void *pages(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		abort();
	return at;
}

void fz_round(const struct fz_round *round, const struct fz_machine *machine,
	      struct fz_count *counts, struct fc_cover *cover, const uint32_t *spared,
	      unsigned int spared_count)
{
	const unsigned int threads = round->threads;
	struct sigaction on = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER };
	struct work *all = calloc(threads, sizeof(*all));
	struct fz_shared shared = {
		.mem = pages(FZ_MEM), .event_fd = eventfd(0, EFD_NONBLOCK),
		.machine = machine, .counts = counts,
		.cover = cover, .is_guided = round->is_guided,
		.spared = spared, .spared_count = spared_count,
	};

	sigaction(SIGSEGV, &on, NULL);
	sigaction(SIGBUS, &on, NULL);
	on = (struct sigaction) { .sa_handler = on_nudge };
	sigaction(SIGALRM, &on, NULL);
	fz_unlock(&shared);
	for (int i = 0; i < FZ_FILES; i++)
		shared.files[i].fd = -1;
	for (unsigned int i = 0; i < threads; i++) {
		struct fz_thread *t = &all[i].thread;

		t->rng.state = round->seed * 64 + i;
		t->shared = &shared;
		t->arg = pages(4 * WT_PAGE);
		t->list = pages(FZ_LIST);
		t->read_only = t->arg + 3 * WT_PAGE;
		mprotect(t->arg + 2 * WT_PAGE, WT_PAGE, PROT_NONE);
		mprotect(t->arg + 3 * WT_PAGE, WT_PAGE, PROT_READ);
		all[i].steps = round->steps;
	}
	for (unsigned int i = 1; i < threads; i++)
		if (pthread_create(&all[i].id, NULL, work, &all[i]))
			abort();
	work(&all[0]);
	for (unsigned int i = 1; i < threads; i++)
		pthread_join(all[i].id, NULL);
	for (int i = 0; i < FZ_FILES; i++)
		if (shared.files[i].fd >= 0)
			close(shared.files[i].fd);
}
