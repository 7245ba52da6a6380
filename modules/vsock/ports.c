// SPDX-License-Identifier: GPL-2.0
/*
 * The ports that are there, and the hosts that they reach; the module.
 */
#include <linux/err.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/slab.h>
#include "vsock.h"

struct workqueue_struct *vs_queue;
/* Of the lists; a port in the first one stays while it is held. */
DEFINE_MUTEX(vs_lock);
LIST_HEAD(vs_ports);
LIST_HEAD(vs_conns);
DECLARE_WORK(vs_reaping, vs_reap);

/* ---- addresses -------------------------------------------------------------- */

/* VMADDR_CID_ANY: the host has none. */
u32 vs_cid_of(u64 hwid)
{
	u32 cid = (u32)hwid + CID_BASE;

	return hwid && cid >= CID_BASE ? cid : VMADDR_CID_ANY;
}

/* Returns the port by which the host of a CID is reached, and its hardware id. Lock held. */
struct vport *vs_find_host(u32 cid, u64 *hwid)
{
	struct weft_port_attr attr;
	struct vport *port;
	size_t count, n;
	u64 *hosts;

	hosts = kmalloc_array(MAX_HOSTS, sizeof(*hosts), GFP_KERNEL);
	if (!hosts)
		return NULL;
	list_for_each_entry(port, &vs_ports, list) {
		weft_query_port(port->port, &attr);
		*hwid = attr.hwid;
		if (vs_cid_of(attr.hwid) == cid)
			goto found;
		count = min_t(size_t, weft_query_hosts(port->port, hosts, MAX_HOSTS), MAX_HOSTS);
		for (n = 0; n < count; n++) {
			*hwid = hosts[n];
			if (vs_cid_of(hosts[n]) == cid)
				goto found;
		}
	}
	port = NULL;
found:
	kfree(hosts);
	return port;
}

u32 vs_local_cid(void)
{
	u32 cid = VMADDR_CID_ANY;
	struct weft_port_attr attr;
	struct vport *port;

	mutex_lock(&vs_lock);
	port = list_first_entry_or_null(&vs_ports, struct vport, list);
	if (port) {
		weft_query_port(port->port, &attr);
		cid = vs_cid_of(attr.hwid);
	}
	mutex_unlock(&vs_lock);
	return cid;
}

bool vs_has_cid(struct vsock_sock *vsk, u32 cid)
{
	bool found;
	u64 hwid;

	mutex_lock(&vs_lock);
	found = vs_find_host(cid, &hwid);
	mutex_unlock(&vs_lock);
	return found;
}

/* ---- ports ----------------------------------------------------------------------------- */

static void add(struct weft_client *client, struct weft_port *at)
{
	struct vport *port = kzalloc(sizeof(*port), GFP_KERNEL);
	struct weft_notifier notifier;

	if (!port)
		return;
	port->port = at;
	INIT_WORK(&port->accepting, vs_port_work);
	disable_work(&port->accepting);
	notifier = (struct weft_notifier){ .notify = vs_kick, .context = &port->accepting };
	port->listener = weft_listen(at, SERVICE, BACKLOG, &notifier);
	if (IS_ERR(port->listener)) {
		pr_err("cannot listen: %pe\n", port->listener);
		kfree(port);
		return;
	}
	mutex_lock(&vs_lock);
	list_add_tail(&port->list, &vs_ports);
	mutex_unlock(&vs_lock);
	enable_and_queue_work(vs_queue, &port->accepting);
}

/* Takes its channel from a connection: the port goes. Its work item is off. */
static void cut(struct conn *conn)
{
	struct sock *sk = vs_sock_of(conn);
	struct weft_channel *channel;

	if (conn->state == CONNECTING || conn->state == WAITING)
		vs_answered(conn, ENETDOWN);
	else
		vs_tell(conn, SHUTDOWN_MASK, ECONNRESET);
	if (sk)
		lock_sock(sk);
	channel = conn->channel;
	conn->channel = NULL;
	conn->port = NULL;
	if (sk) {
		release_sock(sk);
		sock_put(sk);
	}
	if (channel)
		weft_channel_close(channel);
}

static void remove(struct weft_client *client, struct weft_port *at)
{
	struct vport *port = NULL, *each;
	struct conn *conn, *next;
	LIST_HEAD(gone);

	mutex_lock(&vs_lock);
	list_for_each_entry(each, &vs_ports, list)
		if (each->port == at)
			port = each;
	if (port)
		list_del(&port->list);
	mutex_unlock(&vs_lock);
	if (!port)
		return;
	disable_work_sync(&port->accepting);
	weft_listener_close(port->listener);
	kfree(port);
	/* What is over meanwhile stays here, where it is found. */
	mutex_lock(&vs_lock);
	list_for_each_entry_safe(conn, next, &vs_conns, list)
		if (conn->port == at)
			list_move(&conn->list, &gone);
	mutex_unlock(&vs_lock);
	list_for_each_entry(conn, &gone, list) {
		disable_work_sync(&conn->work);
		cut(conn);
		if (conn->state == NEW)
			WRITE_ONCE(conn->over, true);
	}
	mutex_lock(&vs_lock);
	list_splice(&gone, &vs_conns);
	mutex_unlock(&vs_lock);
	queue_work(vs_queue, &vs_reaping);
	flush_work(&vs_reaping);
}

static struct weft_client weft_vsock_client = {
	.name = "weft_vsock",
	.add = add,
	.remove = remove,
};

static int __init weft_vsock_init(void)
{
	int err;

	vs_queue = alloc_workqueue("weft_vsock", WQ_UNBOUND, 0);
	if (!vs_queue)
		return -ENOMEM;
	weft_register_client(&weft_vsock_client);
	err = vsock_core_register(&vs_transport, VSOCK_TRANSPORT_F_G2H);
	if (err) {
		weft_unregister_client(&weft_vsock_client);
		destroy_workqueue(vs_queue);
	}
	return err;
}

/* There is no socket any more: each has a reference to the module. */
static void __exit weft_vsock_exit(void)
{
	vsock_core_unregister(&vs_transport);
	weft_unregister_client(&weft_vsock_client);
	flush_work(&vs_reaping);
	vs_reap(NULL);
	destroy_workqueue(vs_queue);
}

module_init(weft_vsock_init);
module_exit(weft_vsock_exit);
MODULE_DESCRIPTION("AF_VSOCK between hosts that are joined by Weft");
MODULE_LICENSE("GPL");
MODULE_IMPORT_NS("WEFT");
/* No MODULE_ALIAS_NETPROTO(PF_VSOCK): any socket(AF_VSOCK) would load it. */
