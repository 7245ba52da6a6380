/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the tests of /dev/weftN share: opening, connecting, mapping, and the
 * rings of a channel in as few lines as the user interface allows. It is not
 * the library: it must be able to do what the library would never do.
 */
#ifndef WEFT_TEST_H
#define WEFT_TEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <linux/weft.h>

#define WT_PAGE	4096UL
#define WT_DRIVER "/sys/bus/pci/drivers/weft/"

/* Result of an ioctl: 0 or more, or a negative errno. */
long wt_ioctl(int fd, unsigned long cmd, void *arg);

/*
 * Set by a test whose two ends are to be programs of one host: port 1 is port 0 then, and
 * its peer is itself.
 */
extern bool wt_loopback;

/* Opens /dev/weft<port>; a negative errno. */
int wt_open(unsigned int port, int flags);

/* What leads from @fd, a file of either port, to the other: hardware id, and number of the link. */
void wt_way(int fd, __u64 *peer, __u32 *link);

struct weft_port_info wt_port_info(int fd);
struct weft_link_info wt_link_info(int fd, unsigned int link);

/* Milliseconds of a clock that only counts up. */
int64_t wt_now_ms(void);

/* Waits until link 0 of ports 0 and 1 is ready. False after @timeout_ms. */
bool wt_wait_ready(int timeout_ms);

/* Has the driver take the PCI function @pci again; false if its link 0 is not ready then. */
bool wt_bind_again(const char *pci);

/* A service number that no other test of this process uses. */
unsigned int wt_service(void);

/* A fresh file of @port that listens; a negative errno. */
int wt_listen(unsigned int port, unsigned int service, unsigned int backlog);

/* Makes @fd, fresh, the near end. */
long wt_connect(int fd, unsigned int service, unsigned int cells,
		unsigned int bulk, unsigned int timeout_ms);

/* The far end: a new file of @port, accepted at @listener; a negative errno. */
int wt_accept(unsigned int port, int listener);

/* One end of a channel, mapped. */
struct wt_chan {
	int fd;
	struct weft_chan_info info;
	const volatile uint8_t *area;	/* written by the peer */
	volatile uint8_t *window;	/* read by the peer */
	const volatile struct weft_chan_status *status;
	volatile struct weft_chan_user *user;
	volatile uint32_t *kick;	/* or NULL */
	uint64_t produced, consumed;
	uint64_t credited;		/* the peer was told so much */
	uint64_t bulk_next;		/* in the peer's bulk ring */
};

/* Maps the end @fd; false if something cannot be had. */
bool wt_map(struct wt_chan *c, int fd);
void wt_unmap(struct wt_chan *c);

/* Two ends: @a on port 0, @b on port 1. */
bool wt_pair(struct wt_chan *a, struct wt_chan *b, unsigned int cells,
	     unsigned int bulk);
void wt_close(struct wt_chan *c);

/* Where things are. */
uint64_t wt_bulk_at(const struct wt_chan *c);
uint64_t wt_credit(const struct wt_chan *c);

/* Sends without looking for room; @len up to WEFT_CELL_INLINE. */
void wt_send_inline(struct wt_chan *c, const void *data, uint32_t len,
		    uint64_t tag);

/* The same for a payload in the bulk ring; @len up to its size. */
void wt_send_bulk(struct wt_chan *c, const void *data, uint32_t len,
		  uint64_t tag);

/* Rings if the peer's receiver sleeps. True if it was rung. */
bool wt_kick_receiver(struct wt_chan *c);

/* The head of the next cell if it has come, else 0. */
uint64_t wt_peek(const struct wt_chan *c);

/*
 * Takes the next message, which has come, and returns its length.
 * @data: room for the bulk ring's size.
 */
uint32_t wt_take(struct wt_chan *c, void *data, uint64_t *tag);

/* Tells the peer what was consumed, and rings if its sender sleeps. */
void wt_give_credit(struct wt_chan *c);

/* Waits by looking, as a busy receiver does; false after @timeout_ms. */
bool wt_spin(const struct wt_chan *c, int timeout_ms);

/* poll() with the user page up to date: revents, 0 on timeout. */
short wt_poll(struct wt_chan *c, short events, int timeout_ms);

/* Value of an attribute of the port's PCI function, as text; false if absent. */
bool wt_attr(unsigned int port, const char *name, char *buf, size_t len);

/* The same as a number; UINT64_MAX if absent. */
uint64_t wt_attr_u64(unsigned int port, const char *name);

/* KiB of a line of /proc/self/status like VmPin; -1 if there is none. */
long wt_status_kib(const char *name);

/* What is pinned of this process's memory. */
static inline long wt_pinned_kib(void)
{
	return wt_status_kib("VmPin");
}

/* The next number of a sequence that @state, any number at first, stands for. */
uint64_t wt_random(uint64_t *state);

/* Writes to a file of sysfs: 0 or a negative errno. */
int wt_write(const char *path, const char *text);

/* The PCI address of a port, like 0000:01:00.0. */
bool wt_pci_name(unsigned int port, char *buf, size_t len);

#endif
