// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "weft_test.h"

long wt_ioctl(int fd, unsigned long cmd, void *arg)
{
	int r = ioctl(fd, cmd, arg);

	return r < 0 ? -errno : r;
}

bool wt_loopback;

int wt_open(unsigned int port, int flags)
{
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/dev/weft%u", wt_loopback ? 0 : port);
	fd = open(path, O_RDWR | O_CLOEXEC | flags);
	return fd < 0 ? -errno : fd;
}

struct weft_port_info wt_port_info(int fd)
{
	struct weft_port_info i = { .size = sizeof(i) };

	if (wt_ioctl(fd, WEFT_PORT_INFO, &i))
		i.size = 0;
	return i;
}

void wt_way(int fd, __u64 *peer, __u32 *link)
{
	*peer = wt_loopback ? wt_port_info(fd).hwid : 0;
	*link = wt_loopback ? WEFT_ANY_LINK : 0;
}

struct weft_link_info wt_link_info(int fd, unsigned int link)
{
	struct weft_link_info i = { .size = sizeof(i), .link = link };

	if (wt_ioctl(fd, WEFT_LINK_INFO, &i))
		i.size = 0;
	return i;
}

int64_t wt_now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

bool wt_wait_ready(int timeout_ms)
{
	int64_t end = wt_now_ms() + timeout_ms;

	do {
		bool ready = true;

		for (unsigned int port = 0; port < 2; port++) {
			int fd = wt_open(port, 0);
			struct weft_link_info i;

			if (fd < 0) {
				ready = false;
				break;
			}
			i = wt_link_info(fd, 0);
			close(fd);
			if (!i.size || i.state != WEFT_LINK_READY)
				ready = false;
		}
		if (ready)
			return true;
		poll(NULL, 0, 20);
	} while (wt_now_ms() < end);
	return false;
}

unsigned int wt_service(void)
{
	static unsigned int next;

	unsigned int n = __atomic_add_fetch(&next, 1, __ATOMIC_SEQ_CST);

	return 0x40000000 | (unsigned int)getpid() << 8 | (n & 0xff);
}

int wt_listen(unsigned int port, unsigned int service, unsigned int backlog)
{
	struct weft_chan_listen l = {
		.size = sizeof(l), .service = service, .backlog = backlog,
	};
	int fd = wt_open(port, 0);
	long r;

	if (fd < 0)
		return fd;
	r = wt_ioctl(fd, WEFT_CHAN_LISTEN, &l);
	if (r < 0) {
		close(fd);
		return r;
	}
	return fd;
}

long wt_connect(int fd, unsigned int service, unsigned int cells,
		unsigned int bulk, unsigned int timeout_ms)
{
	struct weft_chan_connect c = {
		.size = sizeof(c), .service = service,
		.cells = cells, .bulk = bulk, .timeout_ms = timeout_ms,
	};

	wt_way(fd, &c.peer, &c.link);
	return wt_ioctl(fd, WEFT_CHAN_CONNECT, &c);
}

int wt_accept(unsigned int port, int listener)
{
	struct weft_chan_accept a = {
		.size = sizeof(a), .listen_fd = listener,
	};
	int fd = wt_open(port, 0);
	long r;

	if (fd < 0)
		return fd;
	r = wt_ioctl(fd, WEFT_CHAN_ACCEPT, &a);
	if (r < 0) {
		close(fd);
		return r;
	}
	return fd;
}

static void *map_at(int fd, uint64_t offset, uint64_t bytes, int prot)
{
	void *p = mmap(NULL, bytes, prot, MAP_SHARED, fd, offset);

	return p == MAP_FAILED ? NULL : p;
}

bool wt_map(struct wt_chan *c, int fd)
{
	memset(c, 0, sizeof(*c));
	c->fd = fd;
	c->info.size = sizeof(c->info);
	if (wt_ioctl(fd, WEFT_CHAN_INFO, &c->info))
		return false;
	c->area = map_at(fd, c->info.area_offset, c->info.area_bytes, PROT_READ);
	c->window = map_at(fd, c->info.window_offset, c->info.area_bytes,
			   PROT_READ | PROT_WRITE);
	c->status = map_at(fd, c->info.status_offset, WT_PAGE, PROT_READ);
	c->user = map_at(fd, c->info.user_offset, WT_PAGE, PROT_READ | PROT_WRITE);
	if (c->info.kick_offset)
		c->kick = map_at(fd, c->info.kick_offset, WT_PAGE,
				 PROT_READ | PROT_WRITE);
	return c->area && c->window && c->status && c->user &&
	       !c->info.kick_offset == !c->kick;
}

static void unmap_one(const volatile void *p, uint64_t bytes)
{
	if (p)
		munmap((void *)p, bytes);
}

void wt_unmap(struct wt_chan *c)
{
	unmap_one(c->area, c->info.area_bytes);
	unmap_one(c->window, c->info.area_bytes);
	unmap_one(c->status, WT_PAGE);
	unmap_one(c->user, WT_PAGE);
	unmap_one(c->kick, WT_PAGE);
	c->area = NULL;
	c->window = NULL;
	c->status = NULL;
	c->user = NULL;
	c->kick = NULL;
}

void wt_close(struct wt_chan *c)
{
	wt_unmap(c);
	if (c->fd > 0)
		close(c->fd);
	c->fd = -1;
}

struct accepting {
	int listener;
	int fd;
};

static void *accept_thread(void *arg)
{
	struct accepting *a = arg;

	a->fd = wt_accept(1, a->listener);
	return NULL;
}

bool wt_pair(struct wt_chan *a, struct wt_chan *b, unsigned int cells,
	     unsigned int bulk)
{
	unsigned int service = wt_service();
	struct accepting acc = { .listener = wt_listen(1, service, 1), .fd = -1 };
	int fd = wt_open(0, 0);
	pthread_t thread;
	bool ok = false;
	long r;

	memset(a, 0, sizeof(*a));
	memset(b, 0, sizeof(*b));
	if (acc.listener < 0 || fd < 0)
		return false;
	if (pthread_create(&thread, NULL, accept_thread, &acc))
		return false;
	r = wt_connect(fd, service, cells, bulk, 0);
	if (r) {
		fprintf(stderr, "# connect: %s\n", strerror(-r));
		/* No peer comes: the thread must not wait for ever. */
		pthread_cancel(thread);
		pthread_join(thread, NULL);
	} else {
		pthread_join(thread, NULL);
		ok = acc.fd >= 0 && wt_map(a, fd) && wt_map(b, acc.fd);
	}
	close(acc.listener);
	return ok;
}

uint64_t wt_bulk_at(const struct wt_chan *c)
{
	uint64_t cells = (uint64_t)c->info.cells * WEFT_CELL_BYTES;

	return WEFT_CHAN_CELLS_AT + (cells + WT_PAGE - 1) / WT_PAGE * WT_PAGE;
}

static uint64_t area_u64(const struct wt_chan *c, uint64_t at)
{
	return *(const volatile uint64_t *)(c->area + at);
}

uint64_t wt_credit(const struct wt_chan *c)
{
	return area_u64(c, offsetof(struct weft_chan_ctl, credit));
}

/* Ascending 8-byte stores: what a write-combining buffer likes best. */
static void window_copy(struct wt_chan *c, uint64_t at, const void *data,
			uint32_t len)
{
	volatile uint64_t *to = (volatile uint64_t *)(c->window + at);
	uint64_t word;

	for (uint32_t i = 0; i < len; i += 8) {
		word = 0;
		memcpy(&word, (const char *)data + i, len - i < 8 ? len - i : 8);
		*to++ = word;
	}
}

static void store_fence(void)
{
	__asm__ volatile("sfence" ::: "memory");
}

static void full_fence(void)
{
	__asm__ volatile("mfence" ::: "memory");
}

static uint64_t phase_of(const struct wt_chan *c, uint64_t number)
{
	return number / c->info.cells % 2 ? 0 : WEFT_HEAD_PHASE;
}

static void publish(struct wt_chan *c, const void *data, uint32_t bytes,
		    uint64_t kind, uint32_t len, uint64_t tag)
{
	uint64_t at = WEFT_CHAN_CELLS_AT +
		      c->produced % c->info.cells * WEFT_CELL_BYTES;
	uint64_t head = len | kind << WEFT_HEAD_KIND_SHIFT |
			(c->produced & 0xffff) << WEFT_HEAD_SEQ_SHIFT |
			phase_of(c, c->produced);

	*(volatile uint64_t *)(c->window + at + 8) = tag;
	window_copy(c, at + 16, data, bytes);
	store_fence();
	*(volatile uint64_t *)(c->window + at) = head;
	store_fence();
	c->produced++;
	c->user->produced = c->produced;
}

void wt_send_inline(struct wt_chan *c, const void *data, uint32_t len,
		    uint64_t tag)
{
	publish(c, data, len, WEFT_KIND_INLINE, len, tag);
}

void wt_send_bulk(struct wt_chan *c, const void *data, uint32_t len,
		  uint64_t tag)
{
	uint64_t room = (len + 63ULL) & ~63ULL;
	uint64_t at;

	if (c->bulk_next + room > c->info.bulk)
		c->bulk_next = 0;
	at = c->bulk_next;
	c->bulk_next += room;
	window_copy(c, wt_bulk_at(c) + at, data, len);
	store_fence();
	publish(c, &at, sizeof(at), WEFT_KIND_BULK, len, tag);
}

static void kick(struct wt_chan *c)
{
	struct weft_chan_kick k = { .size = sizeof(k) };

	if (c->kick)
		*c->kick = c->info.kick_value;
	else
		wt_ioctl(c->fd, WEFT_CHAN_KICK, &k);
}

bool wt_kick_receiver(struct wt_chan *c)
{
	uint64_t event;

	full_fence();
	event = area_u64(c, offsetof(struct weft_chan_ctl, recv_event));
	/* The cell before this one is what it sleeps for. */
	if (c->produced != event + 1)
		return false;
	kick(c);
	return true;
}

uint64_t wt_peek(const struct wt_chan *c)
{
	uint64_t at = WEFT_CHAN_CELLS_AT +
		      c->consumed % c->info.cells * WEFT_CELL_BYTES;
	uint64_t head = area_u64(c, at);

	return (head & WEFT_HEAD_PHASE) == phase_of(c, c->consumed) &&
	       head & 0xffULL << WEFT_HEAD_KIND_SHIFT ? head : 0;
}

uint32_t wt_take(struct wt_chan *c, void *data, uint64_t *tag)
{
	uint64_t at = WEFT_CHAN_CELLS_AT +
		      c->consumed % c->info.cells * WEFT_CELL_BYTES;
	uint64_t head = area_u64(c, at);
	uint32_t len = head & WEFT_HEAD_LEN;
	uint64_t from = at + 16;

	__asm__ volatile("lfence" ::: "memory");
	if (tag)
		*tag = area_u64(c, at + 8);
	if ((head >> WEFT_HEAD_KIND_SHIFT & 0xff) == WEFT_KIND_BULK)
		from = wt_bulk_at(c) + area_u64(c, at + 16);
	for (uint32_t i = 0; i < len; i++)
		((uint8_t *)data)[i] = c->area[from + i];
	c->consumed++;
	c->user->consumed = c->consumed;
	return len;
}

void wt_give_credit(struct wt_chan *c)
{
	uint64_t event;

	*(volatile uint64_t *)(c->window +
		offsetof(struct weft_chan_ctl, credit)) = c->consumed;
	full_fence();
	event = area_u64(c, offsetof(struct weft_chan_ctl, send_event));
	if (c->credited <= event && event < c->consumed)
		kick(c);
	c->credited = c->consumed;
}

bool wt_spin(const struct wt_chan *c, int timeout_ms)
{
	int64_t end = wt_now_ms() + timeout_ms;

	while (!wt_peek(c)) {
		if (wt_now_ms() > end)
			return false;
	}
	return true;
}

short wt_poll(struct wt_chan *c, short events, int timeout_ms)
{
	struct pollfd p = { .fd = c->fd, .events = events };

	c->user->consumed = c->consumed;
	c->user->produced = c->produced;
	return poll(&p, 1, timeout_ms) > 0 ? p.revents : 0;
}

bool wt_pci_name(unsigned int port, char *buf, size_t len)
{
	char path[64], real[PATH_MAX];
	const char *name;

	snprintf(path, sizeof(path), "/sys/class/weft/weft%u/device", port);
	if (!realpath(path, real))
		return false;
	name = strrchr(real, '/');
	snprintf(buf, len, "%s", name ? name + 1 : real);
	return true;
}

bool wt_attr(unsigned int port, const char *name, char *buf, size_t len)
{
	char path[128];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/sys/class/weft/weft%u/device/%s", port, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, buf, len - 1);
	close(fd);
	if (n < 0)
		return false;
	buf[n] = 0;
	buf[strcspn(buf, "\n")] = 0;
	return true;
}

uint64_t wt_attr_u64(unsigned int port, const char *name)
{
	char text[64];

	return wt_attr(port, name, text, sizeof(text)) ? strtoull(text, NULL, 0) :
							 UINT64_MAX;
}

long wt_status_kib(const char *name)
{
	FILE *f = fopen("/proc/self/status", "r");
	size_t len = strlen(name);
	char line[256];
	long kib = -1;

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, name, len) && line[len] == ':')
			kib = strtol(line + len + 1, NULL, 10);
	if (f)
		fclose(f);
	return kib;
}

uint64_t wt_random(uint64_t *state)
{
	/* splitmix64: any seed is as good as any other. */
	uint64_t z = *state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

int wt_write(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	int r = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) < 0)
		r = -errno;
	close(fd);
	return r;
}

bool wt_bind_again(const char *pci)
{
	return !wt_write(WT_DRIVER "bind", pci) && wt_wait_ready(60000);
}
