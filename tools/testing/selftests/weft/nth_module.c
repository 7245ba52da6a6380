// SPDX-License-Identifier: GPL-2.0
/*
 * The module is loaded, and a port is bound.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/syscall.h>

#include "kselftest.h"
#include "nth.h"
#include "weft_test.h"

const char *nth_module;
char nth_port[2][32];

bool nth_begin(const char *path)
{
	nth_module = path;
	for (unsigned int port = 0; port < 2; port++)
		if (!wt_pci_name(port, nth_port[port], sizeof(nth_port[port])))
			return false;
	return true;
}

/* ---- the module ------------------------------------------------------- */

static bool loaded(void)
{
	return !access("/sys/module/weft", F_OK);
}

/* With arenas that are quick to make, and that can still be had smaller. */
#define SMALL "arena_kib=512"

long nth_load_file(const char *path, const char *parameters)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	long r = syscall(SYS_finit_module, fd, parameters, 0) ? -errno : 0;

	close(fd);
	return r;
}

static long load_with(const char *parameters)
{
	return nth_load_file(nth_module, parameters);
}

static long load(void)
{
	return load_with(SMALL);
}

static bool unload(void)
{
	return !loaded() || !syscall(SYS_delete_module, "weft", O_NONBLOCK);
}

static bool mentions(const char *path, const char *word)
{
	FILE *file = fopen(path, "r");
	char line[512];
	bool found = false;

	while (file && fgets(line, sizeof(line), file))
		if (strstr(line, word)) {
			ksft_print_msg("left in %s: %s", path, line);
			found = true;
		}
	if (file)
		fclose(file);
	return found;
}

/* Nothing of a port is there. */
static bool nothing_left(void)
{
	bool left = false;

	for (unsigned int port = 0; port < 2; port++) {
		char path[64];

		snprintf(path, sizeof(path), "/dev/weft%u", port);
		if (!access(path, F_OK)) {
			ksft_print_msg("left: %s\n", path);
			left = true;
		}
	}
	left |= mentions("/proc/interrupts", "weft-");
	left |= mentions("/proc/iomem", ": weft");
	/* A module that is loaded lies there itself, by another name. */
	left |= mentions("/proc/vmallocinfo", "[weft]");
	return !left;
}

static bool autoprobe(bool on)
{
	return !wt_write("/sys/bus/pci/drivers_autoprobe", on ? "1" : "0");
}

static bool before_load(void)
{
	return unload() && autoprobe(false);
}

static bool after_load(void)
{
	return autoprobe(true) && unload() && nothing_left();
}

/* ---- a port ----------------------------------------------------------- */

static bool bound(unsigned int port)
{
	char path[96];

	snprintf(path, sizeof(path), WT_DRIVER "%s", nth_port[port]);
	return !access(path, F_OK);
}

bool nth_unbind(unsigned int port)
{
	return !bound(port) || !wt_write(WT_DRIVER "unbind", nth_port[port]);
}

static bool bind(unsigned int port)
{
	return bound(port) || !wt_write(WT_DRIVER "bind", nth_port[port]);
}

static bool before_bind(void)
{
	return (loaded() || !load()) && nth_unbind(0) && nth_unbind(1);
}

static long bind_first(void)
{
	return wt_write(WT_DRIVER "bind", nth_port[0]);
}

static bool after_bind(void)
{
	return nth_unbind(0) && nothing_left();
}

bool nth_all_ready(void)
{
	return (loaded() || !load()) && bind(0) && bind(1) && wt_wait_ready(NTH_READY_MS);
}

bool nth_reload(void)
{
	return unload() && nothing_left() && !load_with("") && nth_all_ready();
}

const struct operation nth_unloaded[] = {
	/* EINVAL: module_add_driver() could not make a directory. */
	{ "load", NULL, before_load, load, after_load, 3, { ENOMEM, EINVAL } },
	/* EBUSY: a BAR could not be reserved; ENODEV, ENOSPC: vectors could not be set up. */
	{ "bind", NULL, before_bind, bind_first, after_bind, 30,
	  { ENOMEM, EBUSY, ENODEV, ENOSPC } },
	{}
};
