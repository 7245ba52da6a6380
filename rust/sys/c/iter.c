// SPDX-License-Identifier: GPL-2.0
/*
 * Copies between an iterator and words that a peer accesses: each byte once, and each word in
 * one piece. Page faults are not handled: the rest of a copy is left then.
 */
#include <linux/iov_iter.h>
#include <linux/uaccess.h>
#include <linux/unaligned.h>
#include "shim.h"

/* Words to store to, in ascending order. */
struct weft_stores {
	u64 *to;
	/* The one that is not full, with so many bytes, as little endian. */
	u64 word;
	unsigned int held;
};

static __always_inline void weft_store_byte(struct weft_stores *stores, u8 byte)
{
	stores->word |= (u64)byte << (8 * stores->held);
	if (++stores->held == sizeof(u64)) {
		WRITE_ONCE(*stores->to, (__force u64)cpu_to_le64(stores->word));
		stores->to++;
		stores->word = 0;
		stores->held = 0;
	}
}

/* Four words at a time: what a loop adds to each is much of what a word costs. */
struct weft_words {
	u64 a, b, c, d;
};

static __always_inline void weft_store_words(struct weft_stores *stores, struct weft_words words)
{
	u64 *to = stores->to;

	WRITE_ONCE(to[0], words.a);
	WRITE_ONCE(to[1], words.b);
	WRITE_ONCE(to[2], words.c);
	WRITE_ONCE(to[3], words.d);
	stores->to += 4;
}

static __always_inline void weft_store_word(struct weft_stores *stores, u64 word)
{
	WRITE_ONCE(*stores->to, word);
	stores->to++;
}

static __always_inline size_t weft_store_user(void __user *base, size_t progress, size_t len,
					      void *priv, void *priv2)
{
	struct weft_stores *stores = priv;
	const u8 __user *from = base;
	struct weft_words words;
	size_t left = len;
	u64 word;
	u8 byte;

	if (!user_access_begin(from, len))
		return len;
	while (stores->held && left) {
		unsafe_get_user(byte, from, fault);
		weft_store_byte(stores, byte);
		from++;
		left--;
	}
	for (; left >= sizeof(words); left -= sizeof(words), from += sizeof(words)) {
		const u64 __user *four = (const u64 __user *)from;

		unsafe_get_user(words.a, four, fault);
		unsafe_get_user(words.b, four + 1, fault);
		unsafe_get_user(words.c, four + 2, fault);
		unsafe_get_user(words.d, four + 3, fault);
		weft_store_words(stores, words);
	}
	for (; left >= sizeof(u64); left -= sizeof(u64), from += sizeof(u64)) {
		unsafe_get_user(word, (const u64 __user *)from, fault);
		weft_store_word(stores, word);
	}
	for (; left; left--, from++) {
		unsafe_get_user(byte, from, fault);
		weft_store_byte(stores, byte);
	}
fault:
	user_access_end();
	return left;
}

static __always_inline size_t weft_store_kernel(void *base, size_t progress, size_t len,
						void *priv, void *priv2)
{
	struct weft_stores *stores = priv;
	const u8 *from = base;
	struct weft_words words;
	size_t left = len;

	for (; stores->held && left; left--)
		weft_store_byte(stores, *from++);
	for (; left >= sizeof(words); left -= sizeof(words), from += sizeof(words)) {
		memcpy(&words, from, sizeof(words));
		weft_store_words(stores, words);
	}
	for (; left >= sizeof(u64); left -= sizeof(u64), from += sizeof(u64))
		weft_store_word(stores, get_unaligned((const u64 *)from));
	for (; left; left--)
		weft_store_byte(stores, *from++);
	return 0;
}

/*
 * Stores the next @count bytes of @from behind the @held ones that *@word has, from @to on, and
 * the word that is not full at last. Returns how many it has stored.
 */
size_t weft_iter_store(void *to, unsigned int held, u64 *word, size_t count,
		       struct iov_iter *from)
{
	struct weft_stores stores = { .to = to, .word = held ? *word : 0, .held = held };
	size_t done;

	pagefault_disable();
	done = iterate_and_advance(from, count, &stores, weft_store_user, weft_store_kernel);
	pagefault_enable();
	if (stores.held)
		WRITE_ONCE(*stores.to, (__force u64)cpu_to_le64(stores.word));
	*word = stores.word;
	return done;
}

static __always_inline u64 weft_load_word(const u8 *at)
{
	return READ_ONCE(*(const u64 *)at);
}

/* Bytes of a word that are in front of the first whole one, or behind the last one. */
struct weft_bytes {
	u64 word;
	unsigned int count;
};

/* Returns the first bytes of those at @at, in the lowest bits: no more than are in its word. */
static __always_inline struct weft_bytes weft_load_bytes(const u8 *at, size_t most)
{
	unsigned int skipped = (unsigned long)at % sizeof(u64);
	u64 word = weft_load_word(at - skipped);
	unsigned int count = sizeof(u64) - skipped;

	return (struct weft_bytes) {
		.word = le64_to_cpu((__force __le64)word) >> (8 * skipped),
		.count = count < most ? count : most,
	};
}

static __always_inline struct weft_words weft_load_words(const u8 *at)
{
	return (struct weft_words) {
		.a = weft_load_word(at),
		.b = weft_load_word(at + 8),
		.c = weft_load_word(at + 16),
		.d = weft_load_word(at + 24),
	};
}

static __always_inline bool weft_is_whole(const u8 *at, size_t left)
{
	return IS_ALIGNED((unsigned long)at, sizeof(u64)) && left >= sizeof(u64);
}

static __always_inline size_t weft_load_user(void __user *base, size_t progress, size_t len,
					     void *priv, void *priv2)
{
	const u8 *from = (const u8 *)priv + progress;
	u8 __user *to = base;
	struct weft_words words;
	size_t left = len;

	if (!user_access_begin(to, len))
		return len;
	while (left) {
		struct weft_bytes part;
		unsigned int n;

		for (; weft_is_whole(from, left) && left >= sizeof(words);
		     left -= sizeof(words), from += sizeof(words), to += sizeof(words)) {
			u64 __user *four = (u64 __user *)to;

			words = weft_load_words(from);
			unsafe_put_user(words.a, four, fault);
			unsafe_put_user(words.b, four + 1, fault);
			unsafe_put_user(words.c, four + 2, fault);
			unsafe_put_user(words.d, four + 3, fault);
		}
		for (; weft_is_whole(from, left);
		     left -= sizeof(u64), from += sizeof(u64), to += sizeof(u64)) {
			unsafe_put_user(weft_load_word(from), (u64 __user *)to, fault);
		}
		if (!left)
			break;
		part = weft_load_bytes(from, left);
		for (n = 0; n < part.count; n++, part.word >>= 8)
			unsafe_put_user((u8)part.word, to + n, fault);
		from += part.count;
		to += part.count;
		left -= part.count;
	}
fault:
	user_access_end();
	return left;
}

static __always_inline size_t weft_load_kernel(void *base, size_t progress, size_t len,
					       void *priv, void *priv2)
{
	const u8 *from = (const u8 *)priv + progress;
	struct weft_words words;
	u8 *to = base;
	size_t left = len;

	while (left) {
		struct weft_bytes part;
		unsigned int n;

		for (; weft_is_whole(from, left) && left >= sizeof(words);
		     left -= sizeof(words), from += sizeof(words), to += sizeof(words)) {
			words = weft_load_words(from);
			memcpy(to, &words, sizeof(words));
		}
		for (; weft_is_whole(from, left);
		     left -= sizeof(u64), from += sizeof(u64), to += sizeof(u64)) {
			put_unaligned(weft_load_word(from), (u64 *)to);
		}
		if (!left)
			break;
		part = weft_load_bytes(from, left);
		for (n = 0; n < part.count; n++, part.word >>= 8)
			to[n] = (u8)part.word;
		from += part.count;
		to += part.count;
		left -= part.count;
	}
	return 0;
}

/* Copies the next @count bytes from @from, which is inside of words, and returns how many. */
size_t weft_iter_load(const void *from, size_t count, struct iov_iter *to)
{
	size_t done;

	pagefault_disable();
	done = iterate_and_advance(to, count, (void *)from, weft_load_user, weft_load_kernel);
	pagefault_enable();
	return done;
}
