// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fuzz_machine.h"
#include "weft_test.h"

#define PATIENCE_MS	60000
/* An endpoint that there is not, where there is none: it can be assigned all the same. */
#define NO_ENDPOINT	0xc000000000000fabULL

long fm_assignments(int fd, unsigned int flags, void *text, uint32_t bytes, uint32_t *version)
{
	struct weft_fabric_assignments a = {
		.size = sizeof(a), .flags = flags, .text = (uintptr_t)text, .bytes = bytes,
		.version = *version,
	};
	long r = wt_ioctl(fd, WEFT_FABRIC_ASSIGNMENTS, &a);

	*version = a.version;
	return r ? r : a.bytes;
}

/* Hosts as @fd's port knows them; true if it is the master of all. */
static bool nodes(int fd, struct fz_machine *m, bool *is_found)
{
	struct weft_fabric_nodes n = { .size = sizeof(n) };
	bool is_master = false;
	long r;

	for (; !(r = wt_ioctl(fd, WEFT_FABRIC_NODES, &n)); n.index++) {
		/* A port that has no manager has none to tell of. */
		m->host_count = n.index ? m->host_count : 0;
		m->nodes = n.nodes;
		*is_found = *is_found || n.state & WEFT_NODE_MASTER;
		if (n.state & WEFT_NODE_MASTER && n.state & WEFT_NODE_SELF)
			is_master = true;
		if (n.kind == WEFT_NODE_HOST && m->host_count < FM_HOSTS)
			m->hosts[m->host_count++] = n.hwid;
	}
	m->has_fabric = m->has_fabric || r != -EOPNOTSUPP;
	return is_master;
}

/* Virtual endpoints, as the master has found them. */
static void components(int fd, struct fz_machine *m)
{
	struct weft_fabric_component c = { .size = sizeof(c) };

	for (m->ve_count = 0; !wt_ioctl(fd, WEFT_FABRIC_COMPONENT, &c); c.index++)
		for (uint32_t ve = 0; ve < c.ves && m->ve_count < FM_VES; ve++)
			m->ves[m->ve_count++] = (struct fm_ve) {
				.endpoint = c.hwid, .ve = ve, .functions = c.functions,
			};
	if (!m->ve_count)
		m->ves[m->ve_count++] = (struct fm_ve) { .endpoint = NO_ENDPOINT };
}

/* Ports of switches, as the master sees them. */
static void slots(int fd, struct fz_machine *m)
{
	struct weft_fabric_slot s = { .size = sizeof(s) };

	m->slot_count = 0;
	for (; m->slot_count < FM_SLOTS && !wt_ioctl(fd, WEFT_FABRIC_SLOT, &s); s.index++)
		m->slots[m->slot_count++] = (struct fm_slot) { .hwid = s.hwid, .port = s.port };
}

/* Appends what the port's own hierarchy gives it. */
static void hierarchy(int fd, unsigned int port, struct fz_machine *m)
{
	struct weft_fabric_vh v = { .size = sizeof(v) };

	for (; !wt_ioctl(fd, WEFT_FABRIC_VH, &v); v.index++, v.root = 0) {
		if (!(v.state & WEFT_VH_GIVEN) || m->given_count == FM_VES)
			continue;
		m->given[m->given_count++] = (struct fm_ve) {
			.endpoint = v.hwid, .ve = v.ve, .functions = v.functions,
			.host = m->hwids[port], .port = port,
		};
	}
}

/* Virtual functions of the port: those that could be moved, if only on themselves. */
static uint32_t functions(int fd)
{
	struct weft_vf_migrate v = {
		.size = sizeof(v), .flags = WEFT_MIGRATE_DRY_RUN, .target_fd = fd,
	};

	while (!wt_ioctl(fd, WEFT_VF_MIGRATE, &v) && !(v.obstacles & WEFT_MIGRATE_NO_SOURCE)) {
		v.vf++;
		v.target_vf = v.vf;
	}
	return v.vf;
}

static bool learn(struct fz_machine *m)
{
	bool is_found = false;
	int fd;

	memset(m, 0, sizeof(*m));
	m->master = -1;
	for (; m->ports < FM_PORTS; m->ports++) {
		const unsigned int port = m->ports;
		uint32_t vfs, version = 0;

		fd = wt_open(port, 0);
		if (fd < 0)
			break;
		m->hwids[port] = wt_port_info(fd).hwid;
		if (nodes(fd, m, &is_found)) {
			long bytes = fm_assignments(fd, 0, m->text, sizeof(m->text), &version);

			m->master = port;
			m->bytes = bytes < 0 ? 0 : bytes;
			components(fd, m);
			slots(fd, m);
		}
		hierarchy(fd, port, m);
		vfs = functions(fd);
		if (vfs > m->vfs) {
			m->vf_port = port;
			m->vfs = vfs;
		}
		close(fd);
	}
	return is_found || !m->has_fabric;
}

bool fm_learn(struct fz_machine *m)
{
	int64_t until = wt_now_ms() + PATIENCE_MS;

	while (!learn(m)) {
		if (wt_now_ms() > until)
			return false;
		usleep(100000);
	}
	return true;
}

/*
 * The master notes in the same text what it sees: then it is another version. After it was
 * given another text it looks for its fabric anew, and is no master until then.
 */
static long put_back(const struct fz_machine *m, int fd, int64_t until)
{
	static char now[WEFT_ASSIGNMENTS_BYTES];
	uint32_t version = 0;
	long r;

	do {
		fm_assignments(fd, 0, now, sizeof(now), &version);
		r = fm_assignments(fd, WEFT_ASSIGNMENTS_SET, (void *)m->text, m->bytes, &version);
	} while ((r == -ESTALE || r == -EAGAIN) && wt_now_ms() < until);
	return r;
}

/* What has become of each assignment. */
static void show(int fd)
{
	struct weft_fabric_assignment a = { .size = sizeof(a) };

	for (; !wt_ioctl(fd, WEFT_FABRIC_ASSIGNMENT, &a); a.index++)
		printf("# endpoint %llx.%x, host %llx: state %u\n", (unsigned long long)a.endpoint,
		       a.ve, (unsigned long long)a.root, a.state);
}

/* What the hierarchies of this machine's ports give now. */
static unsigned int given(const struct fz_machine *m)
{
	struct fz_machine now = { 0 };

	for (unsigned int n = 0; n < m->given_count; n++) {
		const unsigned int port = m->given[n].port;
		int fd;

		if (n && port == m->given[n - 1].port)
			continue;
		fd = wt_open(port, 0);
		hierarchy(fd, port, &now);
		close(fd);
	}
	return now.given_count;
}

bool fm_restore(const struct fz_machine *m)
{
	int64_t until = wt_now_ms() + PATIENCE_MS;
	bool good = true;
	long r;
	int fd;

	if (m->master < 0)
		return true;
	fd = wt_open(m->master, 0);
	r = put_back(m, fd, until);
	for (unsigned int n = 0; n < m->slot_count; n++) {
		struct weft_fabric_announce a = {
			.size = sizeof(a), .flags = WEFT_ANNOUNCE_WITHDRAW,
			.hwid = m->slots[n].hwid, .port = m->slots[n].port,
		};

		wt_ioctl(fd, WEFT_FABRIC_ANNOUNCE, &a);
	}
	while (given(m) != m->given_count && good) {
		usleep(50000);
		good = wt_now_ms() < until;
	}
	if (!good) {
		printf("# %u of %u virtual endpoints are given again; assignments: %ld\n",
		       given(m), m->given_count, r);
		show(fd);
	}
	close(fd);
	return good;
}
