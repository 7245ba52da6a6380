// SPDX-License-Identifier: GPL-2.0
/*
 * Sockets as their users see them: S-1, making them by request and answer; S-2, streams that are
 * pushed and pulled, and what a full buffer does; the errors that programs of TCP expect. Ports 0
 * and 1, joined by link 0 of each; and port 0 alone, whose peer is itself.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/sendfile.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "kselftest_harness.h"
#include "weft_test.h"

#define PULL	(WEFT_PULL_WQE | WEFT_PULL_DATA)
#define MORE	1048576

FIXTURE(socket) {
	unsigned int service;
	int listener, a, b;
};

FIXTURE_VARIANT(socket) {
	bool loopback;
	uint32_t protocol;
};

FIXTURE_VARIANT_ADD(socket, pushed)
{
	.loopback = false,
	.protocol = 0,
};

FIXTURE_VARIANT_ADD(socket, pulled)
{
	.loopback = false,
	.protocol = PULL,
};

FIXTURE_VARIANT_ADD(socket, pushed_within)
{
	.loopback = true,
	.protocol = 0,
};

FIXTURE_VARIANT_ADD(socket, pulled_within)
{
	.loopback = true,
	.protocol = PULL,
};

static int listen_at(unsigned int service, unsigned int backlog)
{
	struct weft_sock_listen arg = {
		.size = sizeof(arg), .service = service, .backlog = backlog,
	};
	int fd = wt_open(1, O_RDWR);
	long err = fd < 0 ? fd : wt_ioctl(fd, WEFT_SOCK_LISTEN, &arg);

	if (err < 0 && fd >= 0)
		close(fd);
	return err < 0 ? err : fd;
}

static long connect_to(int fd, unsigned int service, uint32_t protocol, unsigned int timeout_ms)
{
	struct weft_sock_connect arg = {
		.size = sizeof(arg), .service = service, .protocol = protocol,
		.timeout_ms = timeout_ms,
	};

	wt_way(fd, &arg.peer, &arg.link);
	return wt_ioctl(fd, WEFT_SOCK_CONNECT, &arg);
}

/* A file of port 0, and what became of its request. */
static int begin(unsigned int service, uint32_t protocol, int flags, long *err)
{
	int fd = wt_open(0, O_RDWR | flags);

	*err = connect_to(fd, service, protocol, 0);
	return fd;
}

static int accept_at(int listener, int flags)
{
	struct weft_sock_accept arg = { .size = sizeof(arg), .listen_fd = listener };
	int fd = wt_open(1, O_RDWR | flags);
	long err = fd < 0 ? fd : wt_ioctl(fd, WEFT_SOCK_ACCEPT, &arg);

	if (err < 0 && fd >= 0)
		close(fd);
	return err < 0 ? err : fd;
}

static struct weft_sock_info info_of(int fd)
{
	struct weft_sock_info info = { .size = sizeof(info) };

	if (wt_ioctl(fd, WEFT_SOCK_INFO, &info))
		info.state = 0;
	return info;
}

static long shut_down(int fd, uint32_t how)
{
	struct weft_sock_shutdown arg = { .size = sizeof(arg), .how = how };

	return wt_ioctl(fd, WEFT_SOCK_SHUTDOWN, &arg);
}

static void blocks(int fd, bool on)
{
	int flags = fcntl(fd, F_GETFL);

	fcntl(fd, F_SETFL, on ? flags & ~O_NONBLOCK : flags | O_NONBLOCK);
}

static short state(int fd, short events, int timeout_ms)
{
	struct pollfd p = { .fd = fd, .events = events };

	return poll(&p, 1, timeout_ms) < 0 ? -1 : p.revents;
}

/* A connection: *@a of port 0, *@b of port 1. */
static bool join(int listener, unsigned int service, uint32_t protocol, int *a, int *b)
{
	long err;

	*a = begin(service, protocol, O_NONBLOCK, &err);
	*b = err == -EINPROGRESS ? accept_at(listener, 0) : -1;
	if (*b < 0 || state(*a, POLLOUT, 10000) != POLLOUT) {
		ksft_print_msg("connecting: %ld, accepting: %d\n", err, *b);
		return false;
	}
	blocks(*a, true);
	return true;
}

FIXTURE_SETUP(socket)
{
	wt_loopback = variant->loopback;
	ASSERT_TRUE(wt_wait_ready(60000));
	signal(SIGPIPE, SIG_IGN);
	self->service = wt_service();
	self->listener = listen_at(self->service, 4);
	ASSERT_LE(0, self->listener);
	ASSERT_TRUE(join(self->listener, self->service, variant->protocol, &self->a, &self->b));
}

FIXTURE_TEARDOWN(socket)
{
	close(self->a);
	close(self->b);
	close(self->listener);
}

static void fill(uint8_t *buf, size_t len, uint32_t seed)
{
	for (size_t i = 0; i < len; i++) {
		seed = seed * 1664525 + 1013904223;
		buf[i] = seed >> 24;
	}
}

/* As many bytes as @len, unless the stream ends before; or a negative errno. */
static ssize_t read_all(int fd, uint8_t *buf, size_t len)
{
	size_t got = 0;

	while (got < len) {
		ssize_t n = read(fd, buf + got, len - got);

		if (n < 0)
			return -errno;
		if (!n)
			break;
		got += n;
	}
	return got;
}

static bool carry(int from, int to, size_t len, uint32_t seed)
{
	static uint8_t out[1 << 16], in[1 << 16];

	fill(out, len, seed);
	return write(from, out, len) == len && read_all(to, in, len) == len &&
	       !memcmp(in, out, len);
}

TEST_F(socket, carries_bytes_both_ways)
{
	static const size_t lens[] = { 1, 2, 7, 8, 9, 63, 64, 65, 255, 256, 257, 4095, 10000 };

	for (int lap = 0; lap < 30; lap++) {
		for (size_t i = 0; i < ARRAY_SIZE(lens); i++) {
			ASSERT_TRUE(carry(self->a, self->b, lens[i], lap * 100 + i))
				TH_LOG("%zu bytes, lap %d", lens[i], lap);
			ASSERT_TRUE(carry(self->b, self->a, lens[i], lap * 100 + i + 50))
				TH_LOG("%zu bytes back, lap %d", lens[i], lap);
		}
	}
	EXPECT_EQ(info_of(self->a).sent, info_of(self->b).received);
	EXPECT_EQ(info_of(self->b).sent, info_of(self->a).received);
}

TEST_F(socket, says_what_it_is)
{
	struct weft_port_info other;
	struct weft_sock_info info = info_of(self->a);
	int fd = wt_open(1, O_RDWR);

	other = wt_port_info(fd);
	close(fd);
	EXPECT_EQ(WEFT_SOCK_OPEN, info.state);
	EXPECT_EQ(0, info.error);
	EXPECT_EQ(other.hwid, info.peer_hwid);
	EXPECT_EQ(self->service, info.service);
	EXPECT_EQ(variant->protocol, info.protocol);
	EXPECT_EQ(WEFT_SOCK_DEFAULT_BYTES, info.bytes);
	EXPECT_EQ(WEFT_SOCK_OPEN, info_of(self->b).state);
	EXPECT_EQ(0, info_of(self->listener).state);
	EXPECT_EQ(EISCONN, -connect_to(self->a, self->service, 0, 0));
	EXPECT_EQ(EINVAL, read(self->listener, &info, 1) < 0 ? errno : 0);
}

struct side {
	int fd;
	uint8_t *buf;
	size_t len;
	ssize_t result;
};

static void *sends(void *arg)
{
	struct side *side = arg;
	size_t sent = 0;

	/* Parts of all kinds of lengths. */
	while (sent < side->len) {
		size_t part = 1 + (sent * 7919) % 50000;
		ssize_t n;

		if (part > side->len - sent)
			part = side->len - sent;
		n = write(side->fd, side->buf + sent, part);
		if (n != part) {
			side->result = n < 0 ? -errno : n;
			return NULL;
		}
		sent += n;
	}
	side->result = sent;
	return NULL;
}

static void *receives(void *arg)
{
	struct side *side = arg;

	side->result = read_all(side->fd, side->buf, side->len);
	return NULL;
}

TEST_F(socket, streams_longer_than_the_halves_wait_for_room)
{
	struct side out = { self->a, malloc(MORE), MORE, 0 };
	struct side in = { self->b, malloc(MORE), MORE, 0 };
	pthread_t sender, receiver;

	fill(out.buf, MORE, 5);
	ASSERT_EQ(0, pthread_create(&sender, NULL, sends, &out));
	ASSERT_EQ(0, pthread_create(&receiver, NULL, receives, &in));
	pthread_join(sender, NULL);
	pthread_join(receiver, NULL);
	EXPECT_EQ(MORE, out.result);
	EXPECT_EQ(MORE, in.result);
	EXPECT_EQ(0, memcmp(out.buf, in.buf, MORE));
}

TEST_F(socket, a_full_buffer_is_said_and_room_announced)
{
	static uint8_t out[1 << 16], in[1 << 16];
	size_t sent = 0;
	ssize_t n;

	blocks(self->a, false);
	fill(out, sizeof(out), 9);
	while ((n = write(self->a, out + sent, 1000)) > 0)
		sent += n;
	EXPECT_EQ(EAGAIN, errno);
	ASSERT_LT(10000, sent);
	EXPECT_EQ(0, state(self->a, POLLOUT, 0));
	/* S-2: the flag is at the peer. */
	EXPECT_EQ(1, info_of(self->a).buffer_full);
	ASSERT_EQ(sent, read_all(self->b, in, sent));
	EXPECT_EQ(0, memcmp(in, out, sent));
	EXPECT_EQ(POLLOUT, state(self->a, POLLOUT, 10000));
	blocks(self->a, true);
	EXPECT_TRUE(carry(self->a, self->b, 5000, 3));
}

TEST_F(socket, nothing_to_read_is_waited_for_or_said)
{
	char c;

	EXPECT_EQ(0, state(self->b, POLLIN, 10));
	blocks(self->b, false);
	EXPECT_EQ(-1, read(self->b, &c, 1));
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_EQ(1, write(self->a, "x", 1));
	EXPECT_EQ(POLLIN, state(self->b, POLLIN, 10000));
	EXPECT_EQ(1, read(self->b, &c, 1));
	EXPECT_EQ('x', c);
	EXPECT_EQ(0, state(self->b, POLLIN, 10));
	EXPECT_EQ(0, read(self->b, &c, 0));
	EXPECT_EQ(0, write(self->b, &c, 0));
}

TEST_F(socket, a_half_that_is_shut_down_ends_one_direction)
{
	char buf[100];

	ASSERT_EQ(10, write(self->a, "0123456789", 10));
	EXPECT_EQ(0, shut_down(self->a, WEFT_SHUT_SEND));
	EXPECT_EQ(-1, write(self->a, "x", 1));
	EXPECT_EQ(EPIPE, errno);
	EXPECT_EQ(0, shut_down(self->a, WEFT_SHUT_SEND));
	EXPECT_EQ(10, read_all(self->b, (uint8_t *)buf, sizeof(buf)));
	EXPECT_EQ(0, read(self->b, buf, sizeof(buf)));
	EXPECT_EQ(POLLIN, state(self->b, POLLIN, 0));
	EXPECT_TRUE(carry(self->b, self->a, 20000 / 2, 4));
	EXPECT_EQ(0, shut_down(self->b, WEFT_SHUT_SEND));
	EXPECT_EQ(0, read(self->a, buf, sizeof(buf)));
	EXPECT_EQ(EINVAL, -shut_down(self->a, 4));
	EXPECT_EQ(EINVAL, -shut_down(self->a, 0));
}

TEST_F(socket, what_was_sent_before_a_close_can_be_read)
{
	static uint8_t out[10000], in[20000];

	fill(out, sizeof(out), 77);
	ASSERT_EQ(sizeof(out), write(self->a, out, sizeof(out)));
	close(self->a);
	EXPECT_NE(0, state(self->b, POLLRDHUP, 10000) & POLLRDHUP);
	EXPECT_EQ(-1, write(self->b, "x", 1));
	EXPECT_EQ(EPIPE, errno);
	EXPECT_EQ(WEFT_SOCK_PEER_CLOSED, info_of(self->b).state);
	EXPECT_EQ(sizeof(out), read_all(self->b, in, sizeof(in)));
	EXPECT_EQ(0, memcmp(in, out, sizeof(out)));
	EXPECT_EQ(0, read(self->b, in, 1));
	self->a = wt_open(0, O_RDWR);
}

TEST_F(socket, a_killed_process_closes_its_end)
{
	char c;
	pid_t child = fork();

	ASSERT_LE(0, child);
	if (!child) {
		close(self->b);
		if (write(self->a, "abc", 3) == 3)
			pause();
		_exit(1);
	}
	close(self->a);
	ASSERT_EQ(1, read(self->b, &c, 1));
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	ASSERT_EQ(1, read(self->b, &c, 1));
	ASSERT_EQ(1, read(self->b, &c, 1));
	EXPECT_EQ('c', c);
	EXPECT_EQ(0, read(self->b, &c, 1));
	self->a = wt_open(0, O_RDWR);
}

static void nothing(int sig)
{
	(void)sig;
}

TEST_F(socket, calls_that_wait_can_be_interrupted)
{
	struct sigaction act = { .sa_handler = nothing };
	struct itimerval soon = { .it_value.tv_usec = 50000 };
	static uint8_t buf[MORE];
	ssize_t n;

	sigaction(SIGALRM, &act, NULL);
	setitimer(ITIMER_REAL, &soon, NULL);
	EXPECT_EQ(-1, read(self->b, buf, 1));
	EXPECT_EQ(EINTR, errno);
	soon.it_value.tv_usec = 300000;
	setitimer(ITIMER_REAL, &soon, NULL);
	/* What was sent until then is sent. */
	n = write(self->a, buf, sizeof(buf));
	ASSERT_LT(0, n);
	ASSERT_LT(n, sizeof(buf));
	EXPECT_EQ(n, read_all(self->b, buf, n));
	EXPECT_EQ(0, state(self->b, POLLIN, 10));
}

TEST_F(socket, vectors_and_files_are_sent_too)
{
	char one[] = "vec", two[] = "tors", in[16] = "";
	struct iovec out[] = { { one, 3 }, { two, 4 } }, parts[] = { { in, 2 }, { in + 2, 5 } };
	int file = open("/proc/self/exe", O_RDONLY), pipes[2];
	static uint8_t want[8000], got[8000];

	ASSERT_EQ(7, writev(self->a, out, 2));
	ASSERT_EQ(7, readv(self->b, parts, 2));
	EXPECT_STREQ("vectors", in);
	ASSERT_EQ(sizeof(want), pread(file, want, sizeof(want), 0));
	ASSERT_EQ(sizeof(want), sendfile(self->a, file, NULL, sizeof(want)));
	ASSERT_EQ(0, pipe(pipes));
	for (size_t at = 0; at < sizeof(got);) {
		ssize_t n = splice(self->b, NULL, pipes[1], NULL, sizeof(got) - at, 0);

		ASSERT_LT(0, n);
		ASSERT_EQ(n, read_all(pipes[0], got + at, n));
		at += n;
	}
	EXPECT_EQ(0, memcmp(want, got, sizeof(got)));
}

static void *waits(void *arg)
{
	struct side *side = arg;

	side->result = read(side->fd, side->buf, side->len);
	return NULL;
}

TEST_F(socket, readers_of_one_end_take_turns)
{
	struct side sides[4];
	uint8_t bytes[4];
	pthread_t threads[4];
	int sum = 0;

	for (int i = 0; i < 4; i++) {
		sides[i] = (struct side){ self->b, bytes + i, 1, 0 };
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, waits, &sides[i]));
	}
	ASSERT_EQ(2, write(self->a, "\1\2", 2));
	ASSERT_EQ(2, write(self->a, "\4\10", 2));
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], NULL);
		EXPECT_EQ(1, sides[i].result);
		sum += bytes[i];
	}
	EXPECT_EQ(15, sum);
}

TEST_F(socket, memory_that_is_not_there_loses_nothing)
{
	/* The compiler is not to see that it is none. */
	void *volatile nowhere = (void *)8;
	char in[4] = "";

	ASSERT_EQ(3, write(self->a, "abc", 3));
	EXPECT_EQ(-1, read(self->b, nowhere, 3));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(-1, write(self->a, nowhere, 3));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(3, read(self->b, in, 3));
	EXPECT_STREQ("abc", in);
}

TEST_F(socket, a_reader_that_has_shut_down_reads_nothing)
{
	char c;

	ASSERT_EQ(3, write(self->a, "abc", 3));
	EXPECT_EQ(0, shut_down(self->b, WEFT_SHUT_RECV));
	EXPECT_EQ(0, read(self->b, &c, 1));
	EXPECT_EQ(POLLIN, state(self->b, POLLIN, 0));
	EXPECT_TRUE(carry(self->b, self->a, 100, 1));
}

FIXTURE(request) {
	unsigned int service;
};

FIXTURE_VARIANT(request) {
	uint32_t protocol;
};

FIXTURE_VARIANT_ADD(request, pushed)
{
	.protocol = 0,
};

FIXTURE_VARIANT_ADD(request, pulled)
{
	.protocol = PULL,
};

FIXTURE_SETUP(request)
{
	wt_loopback = false;
	ASSERT_TRUE(wt_wait_ready(60000));
	self->service = wt_service();
}

FIXTURE_TEARDOWN(request)
{
}

/* Bytes of the arena of link 0 of @port that are free. */
static uint64_t room(unsigned int port)
{
	int fd = wt_open(port, O_RDWR);
	struct weft_link_info info = wt_link_info(fd, 0);

	close(fd);
	return info.arena_free;
}

/* The peer confirms a close a little later. */
static bool room_is(unsigned int port, uint64_t want)
{
	int64_t end = wt_now_ms() + 10000;

	while (room(port) != want && wt_now_ms() < end)
		poll(NULL, 0, 1);
	return room(port) == want;
}

TEST_F(request, that_nothing_listens_for_is_refused)
{
	uint64_t before = room(0);
	long err;
	int fd = begin(self->service, variant->protocol, 0, &err);

	EXPECT_EQ(ECONNREFUSED, -err);
	EXPECT_EQ(ENOTCONN, -shut_down(fd, WEFT_SHUT_SEND));
	/* The file is still fresh. */
	EXPECT_EQ(ECONNREFUSED, -connect_to(fd, self->service, variant->protocol, 0));
	close(fd);
	fd = begin(self->service, variant->protocol, O_NONBLOCK, &err);
	if (err == -EINPROGRESS) {
		EXPECT_NE(0, state(fd, POLLOUT, 10000) & POLLERR);
		EXPECT_EQ(WEFT_SOCK_ENDED, info_of(fd).state);
		EXPECT_EQ(ECONNREFUSED, info_of(fd).error);
		EXPECT_EQ(-1, read(fd, &err, 1));
		EXPECT_EQ(ECONNREFUSED, errno);
		EXPECT_EQ(-1, write(fd, &err, 1));
		EXPECT_EQ(ECONNREFUSED, errno);
	} else {
		EXPECT_EQ(ECONNREFUSED, -err);
	}
	close(fd);
	EXPECT_TRUE(room_is(0, before));
}

TEST_F(request, beyond_the_backlog_is_refused)
{
	int listener = listen_at(self->service, 2), fds[3];
	long err;

	ASSERT_LE(0, listener);
	EXPECT_EQ(EADDRINUSE, -listen_at(self->service, 2));
	for (int i = 0; i < 3; i++) {
		fds[i] = begin(self->service, variant->protocol, O_NONBLOCK, &err);
		EXPECT_EQ(EINPROGRESS, i < 2 ? -err : EINPROGRESS);
	}
	EXPECT_NE(0, state(fds[2], POLLOUT, 10000) & POLLERR);
	EXPECT_EQ(POLLIN, state(listener, POLLIN, 10000));
	/* Those that wait are refused when the listener goes. */
	close(listener);
	for (int i = 0; i < 3; i++) {
		EXPECT_NE(0, state(fds[i], POLLOUT, 10000) & POLLERR);
		EXPECT_EQ(ECONNREFUSED, info_of(fds[i]).error);
		close(fds[i]);
	}
}

TEST_F(request, that_is_not_accepted_in_time_is_withdrawn)
{
	uint64_t before[] = { room(0), room(1) };
	int listener = listen_at(self->service, 2), fd = wt_open(0, O_RDWR), last;

	ASSERT_LE(0, listener);
	EXPECT_EQ(ETIMEDOUT, -connect_to(fd, self->service, variant->protocol, 50));
	EXPECT_TRUE(room_is(0, before[0]));
	last = accept_at(listener, O_NONBLOCK);
	EXPECT_EQ(EAGAIN, -last);
	/* One that was closed at once, too. */
	close(fd);
	fd = begin(self->service, variant->protocol, O_NONBLOCK, &(long){ 0 });
	close(fd);
	EXPECT_TRUE(room_is(0, before[0]));
	EXPECT_TRUE(room_is(1, before[1]));
	close(listener);
}

struct echo {
	int listener;
	bool over;
};

/* Sends back what comes on each connection, one after the other. */
static void *echoes(void *arg)
{
	struct echo *echo = arg;
	uint8_t buf[200];

	while (!__atomic_load_n(&echo->over, __ATOMIC_ACQUIRE)) {
		int fd = accept_at(echo->listener, O_NONBLOCK);
		ssize_t got;

		if (fd < 0) {
			state(echo->listener, POLLIN, 10);
			continue;
		}
		blocks(fd, true);
		got = read_all(fd, buf, sizeof(buf));
		if (got > 0)
			(void)!write(fd, buf, got);
		close(fd);
	}
	return NULL;
}

/*
 * Those that are closed at once are withdrawn just when they are accepted: their halves are used
 * again by those that are not, and nothing is stored there for the former.
 */
TEST_F(request, that_is_withdrawn_while_it_is_accepted_spoils_no_other)
{
	struct echo echo = { listen_at(self->service, 4), false };
	uint8_t out[100], in[200];
	pthread_t server;
	long err;

	ASSERT_LE(0, echo.listener);
	ASSERT_EQ(0, pthread_create(&server, NULL, echoes, &echo));
	for (int i = 0; i < 300; i++) {
		int fd = begin(self->service, variant->protocol, O_NONBLOCK, &err);

		/* The backlog may be full of those that were closed. */
		if (i % 3 && (err == -EINPROGRESS || !err) &&
		    state(fd, POLLOUT, 10000) == POLLOUT) {
			blocks(fd, true);
			fill(out, sizeof(out), i);
			ASSERT_EQ(sizeof(out), write(fd, out, sizeof(out))) TH_LOG("%d", i);
			ASSERT_EQ(0, shut_down(fd, WEFT_SHUT_SEND)) TH_LOG("%d", i);
			ASSERT_EQ(sizeof(out), read_all(fd, in, sizeof(in))) TH_LOG("%d", i);
			ASSERT_EQ(0, memcmp(in, out, sizeof(out))) TH_LOG("%d", i);
		}
		close(fd);
	}
	__atomic_store_n(&echo.over, true, __ATOMIC_RELEASE);
	pthread_join(server, NULL);
	close(echo.listener);
}

TEST_F(request, of_the_wrong_kind_is_an_error)
{
	struct weft_sock_connect arg = { .size = sizeof(arg), .service = self->service };
	int listener = listen_at(self->service, 1), fd = wt_open(0, O_RDWR);

	ASSERT_LE(0, listener);
	wt_way(fd, &arg.peer, &arg.link);
	for (uint32_t protocol = 1; protocol < 16; protocol++) {
		arg.protocol = protocol;
		if (protocol == PULL)
			continue;
		EXPECT_EQ(protocol < 8 ? EOPNOTSUPP : EINVAL,
			  -wt_ioctl(fd, WEFT_SOCK_CONNECT, &arg)) TH_LOG("%u", protocol);
	}
	arg.protocol = variant->protocol;
	for (int i = 0; i < 3; i++) {
		arg.bytes = ((uint32_t[]){ 4095, 4096 + 8, 2 << 20 })[i];
		EXPECT_EQ(EINVAL, -wt_ioctl(fd, WEFT_SOCK_CONNECT, &arg));
	}
	arg.bytes = 0;
	arg.service = 0;
	EXPECT_EQ(EINVAL, -wt_ioctl(fd, WEFT_SOCK_CONNECT, &arg));
	arg.service = WEFT_SERVICE_KERNEL;
	EXPECT_EQ(EACCES, -wt_ioctl(fd, WEFT_SOCK_CONNECT, &arg));
	arg.service = self->service;
	arg.flags = 1;
	EXPECT_EQ(EINVAL, -wt_ioctl(fd, WEFT_SOCK_CONNECT, &arg));
	EXPECT_EQ(EINVAL, -accept_at(fd, O_NONBLOCK));
	EXPECT_EQ(EINVAL, -listen_at(wt_service(), 0));
	EXPECT_EQ(EINVAL, -listen_at(wt_service(), WEFT_SOCK_MAX_BACKLOG + 1));
	EXPECT_EQ(EINVAL, -listen_at(0, 1));
	EXPECT_EQ(EACCES, -listen_at(WEFT_SERVICE_KERNEL, 1));
	close(fd);
	close(listener);
}

TEST_F(request, hundreds_fit_into_an_arena_and_one_more_gets_ENOBUFS)
{
	uint64_t before[] = { room(0), room(1) };
	int listener = listen_at(self->service, 1), fds[512], count = 0;
	long err = 0;

	ASSERT_LE(0, listener);
	while (count + 1 < ARRAY_SIZE(fds)) {
		int a = begin(self->service, variant->protocol, O_NONBLOCK, &err), b;

		if (err != -EINPROGRESS) {
			close(a);
			break;
		}
		b = accept_at(listener, 0);
		ASSERT_LE(0, b) TH_LOG("connection %d: %d", count / 2, b);
		ASSERT_EQ(POLLOUT, state(a, POLLOUT, 10000));
		fds[count++] = a;
		fds[count++] = b;
	}
	EXPECT_EQ(ENOBUFS, -err);
	ksft_print_msg("%d sockets in %llu KiB\n", count / 2, (unsigned long long)before[0] >> 10);
	EXPECT_EQ(before[0] / WEFT_SOCK_DEFAULT_BYTES, count / 2);
	for (int i = 0; i < count; i += 2) {
		blocks(fds[i], true);
		ASSERT_TRUE(carry(fds[i], fds[i + 1], 100, i)) TH_LOG("socket %d", i / 2);
	}
	while (count)
		close(fds[--count]);
	close(listener);
	EXPECT_TRUE(room_is(0, before[0]));
	EXPECT_TRUE(room_is(1, before[1]));
}

TEST_HARNESS_MAIN
