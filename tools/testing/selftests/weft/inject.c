// SPDX-License-Identifier: GPL-2.0
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kselftest.h"
#include "inject.h"
#include "weft_test.h"

#define DEBUGFS "/sys/kernel/debug/"

/* Where x86-64 has modules: Documentation/arch/x86/x86_64/mm.rst. */
#define MODULES_FIRST	"0xffffffffa0000000"
#define MODULES_END	"0xffffffffff000000"

static const char *const kinds[] = { "failslab", "fail_page_alloc", "fail_usercopy" };

struct setting {
	const char *file, *value, *at_boot;
};

/* Of a kind; not every kind has every file. */
static const struct setting settings[] = {
	{ "probability", "0", "0" },
	{ "verbose", "0", "2" },
	{ "ignore-gfp-wait", "N", "Y" },
	{ "ignore-gfp-highmem", "N", "Y" },
	{ "min-order", "0", "1" },
	{ "stacktrace-depth", "32", "32" },
	{ "require-end", MODULES_END, "0xffffffffffffffff" },
	{ "require-start", MODULES_FIRST, "0" },
};

static void path_of(char *path, size_t size, const char *kind, const char *file)
{
	snprintf(path, size, DEBUGFS "%s/%s", kind, file);
}

const char *inject_lacks(void)
{
	char path[128];

#ifndef __x86_64__
	return "another architecture than x86-64";
#endif
	if (access("/proc/thread-self/fail-nth", W_OK))
		return "no CONFIG_FAULT_INJECTION";
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		path_of(path, sizeof(path), kinds[i], "require-start");
		if (access(path, W_OK))
			return "no CONFIG_FAULT_INJECTION_STACKTRACE_FILTER in debugfs";
	}
	return NULL;
}

static bool set_all(bool at_boot)
{
	char path[128];

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		for (size_t j = 0; j < ARRAY_SIZE(settings); j++) {
			const struct setting *s = &settings[j];

			path_of(path, sizeof(path), kinds[i], s->file);
			if (access(path, F_OK))
				continue;
			if (wt_write(path, at_boot ? s->at_boot : s->value))
				return false;
		}
	}
	return true;
}

bool inject_in_modules(void)
{
	return set_all(false);
}

void inject_reset(void)
{
	set_all(true);
}

int inject_open(pid_t task)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/fail-nth", task);
	fd = open(path, O_RDWR | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

bool inject_arm(int task, unsigned int nth)
{
	char text[16];
	int len = snprintf(text, sizeof(text), "%u", nth);

	return pwrite(task, text, len, 0) == len;
}

int inject_disarm(int task)
{
	char left[16] = "";

	if (pread(task, left, sizeof(left) - 1, 0) <= 0)
		return -errno;
	if (!inject_arm(task, 0))
		return -errno;
	return !strtoul(left, NULL, 10);
}

static int ascending(const void *a, const void *b)
{
	pid_t left = *(const pid_t *)a, right = *(const pid_t *)b;

	return (left > right) - (left < right);
}

size_t inject_find(const char *comm, pid_t *found, size_t max)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	size_t count = 0;

	while (dir && (entry = readdir(dir))) {
		char path[300], name[64] = "";
		FILE *file;

		if (!isdigit(entry->d_name[0]))
			continue;
		snprintf(path, sizeof(path), "/proc/%s/comm", entry->d_name);
		file = fopen(path, "r");
		if (!file)
			continue;
		if (fgets(name, sizeof(name), file))
			name[strcspn(name, "\n")] = 0;
		fclose(file);
		if (!strstr(name, comm))
			continue;
		if (count < max)
			found[count] = atoi(entry->d_name);
		count++;
	}
	if (dir)
		closedir(dir);
	qsort(found, count < max ? count : max, sizeof(*found), ascending);
	return count;
}
