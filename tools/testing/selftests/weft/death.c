// SPDX-License-Identifier: GPL-2.0
/*
 * Bad days of programs with queue pairs: who dies, forks, unmaps what is registered, or
 * takes an STag back while the peer writes. No other may notice, nothing may leak, and
 * no thread may wait for ever.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "kselftest_harness.h"
#include "ends.h"
#include "weft_test.h"

#define BYTES		(1024 << 10)
#define LONG		(256 << 10)
#define SMALL		(256 << 10)
/* Generous: guests are slow when others run. */
#define PATIENCE_S	120

/* A pair that has nothing to do with what is tried, and what it must find afterwards. */
FIXTURE(death) {
	struct we_end a, b;
	unsigned int messages;
	uint64_t arena_free[2];
};

static uint64_t arena_free(unsigned int port)
{
	int fd = wt_open(port, 0);
	struct weft_link_info i = wt_link_info(fd, 0);

	close(fd);
	return i.arena_free;
}

FIXTURE_SETUP(death)
{
	ASSERT_TRUE(wt_wait_ready(60000));
	ASSERT_TRUE(we_begin(&self->a, 0, SMALL));
	ASSERT_TRUE(we_begin(&self->b, 1, SMALL));
	ASSERT_TRUE(we_join(&self->a, &self->b));
	for (unsigned int port = 0; port < 2; port++)
		self->arena_free[port] = arena_free(port);
}

FIXTURE_TEARDOWN(death)
{
	for (int i = 0; i < 10; i++)
		ASSERT_TRUE(we_exchange(&self->a, &self->b, self->messages++));
	for (unsigned int port = 0; port < 2; port++)
		EXPECT_EQ(self->arena_free[port], arena_free(port));
	we_end(&self->a);
	we_end(&self->b);
}

/* All messages of a pair until its peer is gone: how the first that failed did. */
static int until_gone(struct we_end *b, bool receives)
{
	time_t until = time(NULL) + PATIENCE_S;
	struct weft_cqe cqe;
	uint64_t n = 0;

	while (time(NULL) < until) {
		if (receives && b->recvs - n < 8)
			we_post_recv(b, b->recvs, 0, LONG);
		we_kick(b);
		while (we_poll(b, &cqe)) {
			n++;
			if (cqe.status != WEFT_WC_SUCCESS)
				return cqe.status;
		}
	}
	return -1;
}

/*
 * A child that sends, or writes, for ever, when it has heard that the parent's end is ready;
 * it has got one through when it tells so.
 */
static pid_t sender(uint8_t opcode, struct we_end *b, int tell, int hear)
{
	pid_t pid = fork();
	struct we_end a;
	char c = 0;

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!we_begin(&a, 0, BYTES))
		_exit(1);
	/* Both know the other's number: the parent's by fork, this one by the pipe. */
	if (write(tell, &a.qpn, sizeof(a.qpn)) != sizeof(a.qpn))
		_exit(2);
	if (we_modify(&a, WEFT_QP_STATE | WEFT_QP_ACCESS, WEFT_QP_INIT, 0) ||
	    we_modify(&a, WEFT_QP_STATE | WEFT_QP_PATH, WEFT_QP_RTR, b->qpn) ||
	    we_modify(&a, WEFT_QP_STATE, WEFT_QP_RTS, 0))
		_exit(3);
	if (read(hear, &c, 1) != 1)
		_exit(6);
	for (uint64_t n = 0;; n++) {
		struct weft_cqe cqe;

		we_post(&a, n, opcode, 0, LONG, WE_BASE, b->stag);
		we_post(&a, n, opcode, 0, LONG, WE_BASE, b->stag);
		if (!we_await(&a, NULL, &cqe) || cqe.status != WEFT_WC_SUCCESS)
			_exit(4);
		if (!n && write(tell, &c, 1) != 1)
			_exit(5);
		we_await(&a, NULL, &cqe);
	}
}

static bool killed_in_transfer(struct __test_metadata *_metadata, uint8_t opcode)
{
	bool receives = opcode == WEFT_OP_SEND;
	struct we_end b;
	uint32_t qpn;
	int pipes[2], ready[2], status;
	pid_t pid;
	char c = 0;

	ASSERT_EQ(0, pipe(pipes));
	ASSERT_EQ(0, pipe(ready));
	ASSERT_TRUE(we_begin(&b, 1, BYTES));
	pid = sender(opcode, &b, pipes[1], ready[0]);
	ASSERT_GT(pid, 0);
	/* If the child fails, what is read from it ends. */
	close(pipes[1]);
	close(ready[0]);
	ASSERT_EQ(sizeof(qpn), read(pipes[0], &qpn, sizeof(qpn)));
	ASSERT_EQ(0, we_modify(&b, WEFT_QP_STATE | WEFT_QP_ACCESS, WEFT_QP_INIT, 0));
	if (receives)
		for (int i = 0; i < 8; i++)
			we_post_recv(&b, i, 0, LONG);
	else
		we_post_recv(&b, 0, 0, LONG);
	ASSERT_EQ(0, we_modify(&b, WEFT_QP_STATE | WEFT_QP_PATH, WEFT_QP_RTR, qpn));
	ASSERT_EQ(1, write(ready[1], &c, 1));
	ASSERT_EQ(1, read(pipes[0], &c, 1));
	/* In the middle of the next ones. */
	ASSERT_EQ(0, kill(pid, SIGKILL));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_TRUE(WIFSIGNALED(status));
	/* What waits for the peer ends in an error, and not in silence. */
	EXPECT_EQ(WEFT_WC_FLUSHED, until_gone(&b, receives));
	EXPECT_EQ(WEFT_QP_ERR, we_state(&b));
	we_end(&b);
	close(pipes[0]);
	close(ready[1]);
	return true;
}

TEST_F_TIMEOUT(death, killed_in_mid_send, 300)
{
	for (int i = 0; i < 5; i++)
		killed_in_transfer(_metadata, WEFT_OP_SEND);
}

TEST_F_TIMEOUT(death, killed_in_mid_write, 300)
{
	for (int i = 0; i < 5; i++)
		killed_in_transfer(_metadata, WEFT_OP_WRITE);
}

TEST_F_TIMEOUT(death, killed_in_mid_read, 300)
{
	for (int i = 0; i < 5; i++)
		killed_in_transfer(_metadata, WEFT_OP_READ);
}

/* A child has its parent's mappings and file; that it dies means nothing to either. */
TEST_F_TIMEOUT(death, fork_and_exit, 300)
{
	struct we_end *a = &self->a, *b = &self->b;

	for (unsigned int i = 0; i < 20; i++) {
		int status;
		pid_t pid = fork();

		ASSERT_GE(pid, 0);
		if (pid == 0) {
			/* The child's own copy: it was never registered. */
			memset(a->mem, 0xcc, a->bytes);
			memset(b->mem, 0xcc, b->bytes);
			we_kick(a);
			_exit(0);
		}
		ASSERT_TRUE(we_exchange(a, b, self->messages++));
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		EXPECT_EQ(0, status);
		ASSERT_TRUE(we_exchange(a, b, self->messages++));
	}
}

static bool is_all(const uint8_t *at, size_t bytes, uint8_t value)
{
	for (size_t i = 0; i < bytes; i++)
		if (at[i] != value)
			return false;
	return true;
}

/*
 * What is registered is unmapped while the peer writes it: the pages stay the region's,
 * and what is mapped there next is not reached.
 */
TEST_F_TIMEOUT(death, unmapped_while_the_peer_writes, 300)
{
	struct we_end *a = &self->a, *b = &self->b;
	struct weft_cqe cqe;

	memset(a->mem, 0x5a, SMALL);
	for (unsigned int i = 0; i < 20; i++) {
		uint32_t mr, stag;
		uint8_t *mem = mmap(NULL, SMALL, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		ASSERT_NE(MAP_FAILED, mem);
		ASSERT_EQ(0, we_register(b, mem, SMALL, WEFT_ACCESS_LOCAL_WRITE | WE_REMOTE,
					 &mr, &stag));
		we_post(a, 1, WEFT_OP_WRITE, 0, SMALL, WE_BASE, stag);
		for (unsigned int n = 0; n < i; n++)
			we_kick(n % 2 ? b : a);
		/* Others get the address at once. */
		ASSERT_EQ(mem, mmap(mem, SMALL, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
		ASSERT_TRUE(we_await(a, b, &cqe));
		EXPECT_EQ(WEFT_WC_SUCCESS, cqe.status);
		EXPECT_TRUE(is_all(mem, SMALL, 0));
		/* And what was written can be read back: the pages are there. */
		memset(a->mem, 0, SMALL);
		we_post(a, 2, WEFT_OP_READ, 0, SMALL, WE_BASE, stag);
		ASSERT_TRUE(we_await(a, b, &cqe));
		EXPECT_EQ(WEFT_WC_SUCCESS, cqe.status);
		EXPECT_TRUE(is_all(a->mem, SMALL, 0x5a));
		ASSERT_EQ(0, we_destroy(b, mr));
		munmap(mem, SMALL);
	}
}

/* M-1: when an STag has been taken back not one byte changes any more. */
static void take_back(struct __test_metadata *_metadata, struct we_end *a, struct we_end *b,
		      unsigned int round)
{
	uint32_t mr, stag, state;
	struct weft_cqe cqe;
	uint8_t *mem = mmap(NULL, SMALL, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	ASSERT_NE(MAP_FAILED, mem);
	ASSERT_EQ(0, we_register(b, mem, SMALL, WEFT_ACCESS_LOCAL_WRITE | WE_REMOTE, &mr, &stag));
	memset(a->mem, 0x5a, SMALL);
	/* Short ones and long ones: by cells, by the eager ring, by memory that is lent. */
	for (unsigned int i = 0; i < 12; i++)
		we_post(a, i, WEFT_OP_WRITE, 0, i % 3 ? 64 << i % 8 : SMALL / 2,
			WE_BASE + i * 64, stag);
	for (unsigned int i = 0; i < round % 16; i++)
		we_kick(i % 2 ? b : a);
	/* The work items of both engines go on meanwhile. */
	ASSERT_EQ(0, we_destroy(b, mr));
	memset(mem, 0x11, SMALL);
	for (unsigned int i = 0; i < 12; i++) {
		ASSERT_TRUE(we_await(a, b, &cqe)) TH_LOG("round %u", round);
		EXPECT_TRUE(cqe.status == WEFT_WC_SUCCESS ||
			    cqe.status == WEFT_WC_REMOTE_ACCESS ||
			    cqe.status == WEFT_WC_FLUSHED) TH_LOG("status %u", cqe.status);
	}
	ASSERT_TRUE(is_all(mem, SMALL, 0x11)) TH_LOG("round %u: written after all", round);
	munmap(mem, SMALL);
	state = we_state(a);
	ASSERT_TRUE(state == WEFT_QP_ERR || state == WEFT_QP_RTS);
}

TEST_F_TIMEOUT(death, M_1_taken_back_while_the_peer_writes, 300)
{
	for (unsigned int round = 0; round < 48; round++) {
		struct we_end a, b;

		ASSERT_TRUE(we_begin(&a, 0, SMALL));
		ASSERT_TRUE(we_begin(&b, 1, SMALL));
		ASSERT_TRUE(we_join(&a, &b));
		take_back(_metadata, &a, &b, round);
		ASSERT_TRUE(we_exchange(&self->a, &self->b, self->messages++));
		we_end(&a);
		we_end(&b);
	}
}

/* Sends @bytes, and with them a file. */
static bool pass(int socket, const void *data, size_t bytes, int fd)
{
	union {
		char room[CMSG_SPACE(sizeof(int))];
		struct cmsghdr head;
	} control = { };
	struct iovec iov = { .iov_base = (void *)data, .iov_len = bytes };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = &control, .msg_controllen = sizeof(control),
	};

	control.head.cmsg_level = SOL_SOCKET;
	control.head.cmsg_type = SCM_RIGHTS;
	control.head.cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
	return sendmsg(socket, &msg, 0) == (ssize_t)bytes;
}

/* What pass() sent; -1 if no file is with it. */
static int taken(int socket, void *data, size_t bytes)
{
	union {
		char room[CMSG_SPACE(sizeof(int))];
		struct cmsghdr head;
	} control = { };
	struct iovec iov = { .iov_base = data, .iov_len = bytes };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = &control, .msg_controllen = sizeof(control),
	};
	int fd = -1;

	if (recvmsg(socket, &msg, 0) != (ssize_t)bytes || !CMSG_FIRSTHDR(&msg))
		return -1;
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(fd));
	return fd;
}

/*
 * A file is sent to another process, and the one that opened it ends: queues and memory are
 * the file's, also memory of a process that is no more, and go with its last descriptor.
 */
TEST_F_TIMEOUT(death, file_is_passed_on, 300)
{
	for (unsigned int round = 0; round < 4; round++) {
		struct we_end a, b, from;
		struct weft_cqe cqe;
		int status, fd, sockets[2];
		pid_t pid;

		ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets));
		pid = fork();
		ASSERT_GE(pid, 0);
		if (pid == 0) {
			if (!we_begin(&from, 0, SMALL))
				_exit(1);
			memset(from.mem, 0x40 + round, SMALL);
			_exit(pass(sockets[1], &from, sizeof(from), from.fd) ? 0 : 2);
		}
		fd = taken(sockets[0], &from, sizeof(from));
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		ASSERT_EQ(0, status);
		ASSERT_GE(fd, 0);
		close(sockets[0]);
		close(sockets[1]);

		ASSERT_TRUE(we_adopt(&a, &from, fd));
		ASSERT_TRUE(we_begin(&b, 1, SMALL));
		ASSERT_TRUE(we_join(&a, &b));
		we_post(&a, 1, WEFT_OP_WRITE, 0, SMALL, WE_BASE, b.stag);
		ASSERT_TRUE(we_await(&a, &b, &cqe));
		EXPECT_EQ(WEFT_WC_SUCCESS, cqe.status);
		EXPECT_TRUE(is_all(b.mem, SMALL, 0x40 + round));

		/* What this process registers through the file is this one's memory. */
		ASSERT_EQ(0, we_destroy(&a, a.mr));
		a.mem = mmap(NULL, SMALL, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
		ASSERT_NE(MAP_FAILED, a.mem);
		ASSERT_EQ(0, we_register(&a, a.mem, SMALL, WEFT_ACCESS_LOCAL_WRITE | WE_REMOTE,
					 &a.mr, &a.stag));
		for (unsigned int n = 0; n < 4; n++)
			ASSERT_TRUE(we_exchange(&a, &b, n));
		we_end(&a);
		we_end(&b);
	}
}

/* Who has used up RLIMIT_MEMLOCK is told so, and gets it back. */
TEST_F_TIMEOUT(death, out_of_locked_memory, 300)
{
	struct rlimit limit = { .rlim_cur = 1 << 20, .rlim_max = 1 << 20 };
	int status;
	pid_t pid = fork();

	ASSERT_GE(pid, 0);
	if (pid == 0) {
		uint32_t mr[64], stag;
		unsigned int count = 0;
		struct we_end e;
		void *mem = mmap(NULL, 64 << 10, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (!we_begin(&e, 0, 4096) || setrlimit(RLIMIT_MEMLOCK, &limit))
			_exit(1);
		/* Without the right to lock what it likes: as user 65534. */
		if (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
			_exit(2);
		for (int twice = 0; twice < 2; twice++) {
			long r = 0;

			for (count = 0; count < 64 && !r; count++)
				r = we_register(&e, mem, 64 << 10, WEFT_ACCESS_LOCAL_WRITE,
						&mr[count], &stag);
			/* 16 of 64 KiB; what root has registered is not charged. */
			if (r != -ENOMEM || count != 17)
				_exit(3);
			for (unsigned int i = 0; i < count - 1; i++)
				if (we_destroy(&e, mr[i]))
					_exit(4);
		}
		_exit(0);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status) TH_LOG("exit status %d", WEXITSTATUS(status));
}

TEST_HARNESS_MAIN
