// SPDX-License-Identifier: GPL-2.0
/*
 * What else has to do with a port: matching interfaces, interfaces of the network, and clients in
 * the kernel.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/syscall.h>

#include "kselftest.h"
#include "mi.h"
#include "nth.h"
#include "rtnl.h"
#include "weft_test.h"

/* ---- matching interfaces ---------------------------------------------- */

static struct mi ends[2];

static long match_open(void)
{
	return mi_open(&ends[0], 0, 0);
}

static bool match_close(void)
{
	mi_close(&ends[0]);
	return true;
}

static bool before_message(void)
{
	static uint8_t bytes[64];

	if (mi_open(&ends[0], 0, 0) || mi_open(&ends[1], 1, 0) || enable(&ends[1]))
		return false;
	command(&ends[1], buffer(bytes, sizeof(bytes), 0, 0));
	return true;
}

/* A host that nothing was sent to yet: a session begins. */
static long first_message(void)
{
	static uint8_t bytes[64];
	struct weft_match_event e;

	put(&ends[0], &ends[1], message(bytes, sizeof(bytes), 0, 0), false);
	e = next_ms(&ends[0], NTH_READY_MS);
	return e.kind == WEFT_MATCH_SENT ? -(long)e.status : -EPROTO;
}

/* One behind the first: the session is there. */
static bool before_more(void)
{
	static uint64_t there[8];
	bool is_there = before_message() && !first_message();

	/* What became of the message. */
	is_there = is_there && next_ms(&ends[1], NTH_READY_MS).kind == WEFT_MATCH_RECEIVED;
	return is_there && !result(&ends[1], region(there, sizeof(there), 1, 1));
}

static long more(uint8_t op, uint8_t operation)
{
	static uint64_t bytes[2];
	struct weft_match_command c = message(bytes, sizeof(bytes), 1, 1);
	struct weft_match_event e;

	c.op = op;
	ask(&ends[0], &ends[1], c, (struct weft_match_more) {
		.result = (uintptr_t)bytes, .operation = operation, .integer = operation ? 8 : 0,
	}, NULL, 0);
	e = next_ms(&ends[0], NTH_READY_MS);
	return e.kind == WEFT_MATCH_SENT ? -(long)e.status : -EPROTO;
}

static long get(void)
{
	return more(WEFT_MATCH_GET, 0);
}

static long fetch(void)
{
	return more(WEFT_MATCH_FETCH, WEFT_MATCH_SUM);
}

static struct weft_match_event head;

/* A message that its program is to match. */
static bool before_pull(void)
{
	static uint8_t memory[WEFT_MATCH_EAGER], from[2 * WEFT_MATCH_EAGER];
	struct weft_match_open open = {
		.flags = WEFT_MATCH_HANDS_OVER, .entries = 16, .commands = 16, .events = 16,
	};

	if (mi_open(&ends[0], 0, 0) || mi_open_as(&ends[1], 1, open) || enable(&ends[1]))
		return false;
	command(&ends[1], requests(memory, sizeof(memory), 0));
	command(&ends[1], (struct weft_match_command) { .op = WEFT_MATCH_HAND_OVER });
	put(&ends[0], &ends[1], message(from, sizeof(from), 0, 0), false);
	do
		head = next_ms(&ends[1], NTH_READY_MS);
	while (head.kind == WEFT_MATCH_STATE || head.kind == WEFT_MATCH_COMMAND);
	return head.kind == WEFT_MATCH_HEADER;
}

static long pull(void)
{
	static uint8_t to[2 * WEFT_MATCH_EAGER];
	struct weft_match_command c = {
		.op = WEFT_MATCH_PULL, .hwid = head.hwid, .endpoint = head.endpoint,
		.ignore = head.address, .address = (uintptr_t)to, .length = sizeof(to),
	};
	struct weft_match_event e;

	command(&ends[1], c);
	e = next_ms(&ends[1], NTH_READY_MS);
	return e.kind == WEFT_MATCH_RECEIVED || e.kind == WEFT_MATCH_COMMAND ? -(long)e.status :
									      -EPROTO;
}

static bool after_message(void)
{
	mi_close(&ends[0]);
	mi_close(&ends[1]);
	return true;
}

/* ---- interfaces of the network, and clients in the kernel ------------- */

#define NETWORK "weftnth0"

static long net_add(void)
{
	return rtnl_add(NETWORK, "weft0");
}

static long net_raise(void)
{
	return rtnl_raise(NETWORK);
}

static bool before_raise(void)
{
	return !net_add();
}

/* It is not there if it could not be made. */
static bool net_remove(void)
{
	long r = rtnl_remove(NETWORK);

	return !r || r == -ENODEV;
}

/* The sample, which listens on each port, lies beside weft.ko, as it was built. */
static char client[256];

static bool find_client(void)
{
	snprintf(client, sizeof(client), "%.*s/samples/weft_echo.ko",
		 (int)(strrchr(nth_module, '/') - nth_module), nth_module);
	if (access(client, R_OK))
		ksft_print_msg("%s is needed\n", client);
	return !access(client, R_OK);
}

static long load_client(void)
{
	return nth_load_file(client, "");
}

static bool unload_client(void)
{
	return access("/sys/module/weft_echo", F_OK) ||
	       !syscall(SYS_delete_module, "weft_echo", O_NONBLOCK);
}

const struct operation nth_clients[] = {
	{ "WEFT_MATCH_OPEN", NULL, nth_nothing, match_open, match_close, 10, NTH_USUAL },
	{ "matching: the first message to a host", "weft/match", before_message, first_message,
	  after_message, 1, { ENOMEM, EFAULT, EHOSTUNREACH } },
	{ "matching: a get", "weft/match", before_more, get, after_message, 1, NTH_USUAL },
	{ "matching: an atomic operation", "weft/match", before_more, fetch, after_message, 1,
	  NTH_USUAL },
	{ "matching: a message that its program has matched", "weft/match", before_pull, pull,
	  after_message, 1, NTH_USUAL },
	{ "matching: a session begins", "kworker/u", before_message, first_message, after_message,
	  4, { ENOMEM, ECONNRESET, EHOSTUNREACH } },
	/* EINVAL: netdev_register_kobject() adds a device whose name there was no memory for. */
	{ "an interface of the network", NULL, nth_nothing, net_add, net_remove, 4,
	  { ENOMEM, ENOBUFS, EINVAL } },
	{ "an interface of the network is raised", NULL, before_raise, net_raise, net_remove, 0,
	  { ENOMEM } },
	{ "a client in the kernel", NULL, find_client, load_client, unload_client, 4, { ENOMEM } },
	{}
};
