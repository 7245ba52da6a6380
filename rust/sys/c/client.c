// SPDX-License-Identifier: GPL-2.0
/*
 * Which clients and which ports there are, and the symbols that clients link against. What
 * these do is in rust/sys/client.rs and rust/sys/sockets.rs.
 */
#include <linux/export.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/weft_client.h>
#include "shim.h"

/* Taken inside the device lock of a port; add() and remove() of clients run with it held. */
static DEFINE_MUTEX(weft_clients_lock);
static LIST_HEAD(weft_clients);
static LIST_HEAD(weft_ports);

struct weft_port {
	struct list_head list;
	/* Of rust/sys/client.rs. */
	const void *port;
};

/* Shows @port to the clients. NULL: no memory. */
struct weft_port *weft_port_add(const void *port)
{
	struct weft_port *added = kmalloc(sizeof(*added), GFP_KERNEL);
	struct weft_client *client;

	if (!added)
		return NULL;
	added->port = port;
	mutex_lock(&weft_clients_lock);
	list_add_tail(&added->list, &weft_ports);
	list_for_each_entry(client, &weft_clients, list)
		client->add(client, added);
	mutex_unlock(&weft_clients_lock);
	return added;
}

/* When this returns, no client uses the port. */
void weft_port_remove(struct weft_port *port)
{
	struct weft_client *client;

	mutex_lock(&weft_clients_lock);
	list_for_each_entry(client, &weft_clients, list)
		client->remove(client, port);
	list_del(&port->list);
	mutex_unlock(&weft_clients_lock);
	kfree(port);
}

const void *weft_port_of(const struct weft_port *port)
{
	return port->port;
}

/**
 * weft_register_client - have @client told of all ports of this host
 * @client: valid until weft_unregister_client() returns
 *
 * Context: process; add() is called for each port that is there.
 */
void weft_register_client(struct weft_client *client)
{
	struct weft_port *port;

	mutex_lock(&weft_clients_lock);
	list_add_tail(&client->list, &weft_clients);
	list_for_each_entry(port, &weft_ports, list)
		client->add(client, port);
	mutex_unlock(&weft_clients_lock);
}
EXPORT_SYMBOL_NS_GPL(weft_register_client, "WEFT");

/**
 * weft_unregister_client - undo weft_register_client()
 * @client: registered
 *
 * Context: process; remove() is called for each port that is there.
 */
void weft_unregister_client(struct weft_client *client)
{
	struct weft_port *port;

	mutex_lock(&weft_clients_lock);
	list_for_each_entry(port, &weft_ports, list)
		client->remove(client, port);
	list_del(&client->list);
	mutex_unlock(&weft_clients_lock);
}
EXPORT_SYMBOL_NS_GPL(weft_unregister_client, "WEFT");

/* Of rust/sys/client.rs and rust/sys/sockets.rs. */
#define WEFT_EXPORT(function)	EXPORT_SYMBOL_NS_GPL(function, "WEFT")

WEFT_EXPORT(weft_query_port);
WEFT_EXPORT(weft_query_hosts);
WEFT_EXPORT(weft_listen);
WEFT_EXPORT(weft_listener_close);
WEFT_EXPORT(weft_accept);
WEFT_EXPORT(weft_connect);
WEFT_EXPORT(weft_channel_close);
WEFT_EXPORT(weft_query_channel);
WEFT_EXPORT(weft_channel_send);
WEFT_EXPORT(weft_channel_finish);
WEFT_EXPORT(weft_channel_room);
WEFT_EXPORT(weft_channel_next);
WEFT_EXPORT(weft_channel_read);
WEFT_EXPORT(weft_channel_consume);
WEFT_EXPORT(weft_socket_listen);
WEFT_EXPORT(weft_socket_listener_close);
WEFT_EXPORT(weft_socket_oldest);
WEFT_EXPORT(weft_socket_accept);
WEFT_EXPORT(weft_socket_refuse);
WEFT_EXPORT(weft_socket_connect);
WEFT_EXPORT(weft_socket_close);
WEFT_EXPORT(weft_query_socket);
WEFT_EXPORT(weft_socket_send);
WEFT_EXPORT(weft_socket_receive);
WEFT_EXPORT(weft_socket_readable);
WEFT_EXPORT(weft_socket_writable);
WEFT_EXPORT(weft_socket_finish);
