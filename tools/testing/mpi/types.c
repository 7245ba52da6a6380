// SPDX-License-Identifier: GPL-2.0
/*
 * Derived types: what does not lie in one piece arrives where it belongs, and nothing beside it is
 * written.
 */
#include "semantics.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 40
#define COLUMNS 50

struct matrix {
	int at[ROWS][COLUMNS];
};

/* Sends `count` of a type of this rank's matrix, and receives them as `to` of a matrix of -1. */
static void carry(MPI_Comm comm, struct matrix *in, MPI_Datatype as, MPI_Datatype to, int count)
{
	struct matrix *out = malloc(sizeof(*out));
	MPI_Status status;
	int elements;

	for (int row = 0; row < ROWS; row++) {
		for (int column = 0; column < COLUMNS; column++)
			out->at[row][column] = rank * 10000 + row * COLUMNS + column;
	}
	memset(in, 0xff, sizeof(*in));
	MUST(MPI_Type_commit(&as));
	MUST(MPI_Type_commit(&to));
	MUST(MPI_Sendrecv(out, count, as, after(1), 1, in, count, to, before(1), 1, comm, &status));
	MPI_Get_count(&status, to, &elements);
	EXPECT(elements == count, "of %d elements %d came", count, elements);
	free(out);
}

static int value(int row, int column)
{
	return before(1) * 10000 + row * COLUMNS + column;
}

/* A column, which arrives as a column, as a row, and turned. */
static void columns(MPI_Comm comm)
{
	struct matrix *in = malloc(sizeof(*in));
	MPI_Datatype column, row, narrow;

	MUST(MPI_Type_vector(ROWS, 1, COLUMNS, MPI_INT, &column));
	MUST(MPI_Type_contiguous(ROWS, MPI_INT, &row));
	carry(comm, in, column, column, 1);
	for (int n = 0; n < ROWS; n++) {
		EXPECT(in->at[n][0] == value(n, 0), "row %d of a column is %d", n, in->at[n][0]);
		EXPECT(in->at[n][1] == -1, "beside row %d of a column something is written", n);
	}
	carry(comm, in, column, row, 1);
	for (int n = 0; n < ROWS; n++)
		EXPECT(in->at[0][n] == value(n, 0), "a column as a row is %d at %d", in->at[0][n],
		       n);
	EXPECT(in->at[0][ROWS] == -1, "behind a row something is written");
	/* Columns one after the other: the matrix is turned. */
	MUST(MPI_Type_create_resized(column, 0, sizeof(int), &narrow));
	carry(comm, in, narrow, row, COLUMNS);
	for (int n = 0; n < ROWS * COLUMNS; n++)
		EXPECT((&in->at[0][0])[n] == value(n % ROWS, n / ROWS),
		       "a matrix, turned, is %d at %d", (&in->at[0][0])[n], n);
	MUST(MPI_Type_free(&narrow));
	MUST(MPI_Type_free(&row));
	MUST(MPI_Type_free(&column));
	free(in);
}

static void part_of(MPI_Comm comm)
{
	static const int sizes[] = { ROWS, COLUMNS }, part[] = { 7, 9 }, first[] = { 3, 5 };
	static const int lengths[] = { 1, 0, 4, 2 }, places[] = { 90, 3, 10, 40 };
	struct matrix *in = malloc(sizeof(*in));
	MPI_Datatype array, indexed;
	int n = 0;

	MUST(MPI_Type_create_subarray(2, sizes, part, first, MPI_ORDER_C, MPI_INT, &array));
	carry(comm, in, array, array, 1);
	for (int row = 0; row < ROWS; row++) {
		for (int column = 0; column < COLUMNS; column++) {
			int inside = row >= 3 && row < 10 && column >= 5 && column < 14;
			int want = inside ? value(row, column) : -1;

			EXPECT(in->at[row][column] == want,
			       "row %d, column %d of a part is %d, not %d", row, column,
			       in->at[row][column], want);
		}
	}
	MUST(MPI_Type_indexed(4, lengths, places, MPI_INT, &indexed));
	carry(comm, in, indexed, indexed, 1);
	for (int block = 0; block < 4; block++) {
		for (int at = places[block]; at < places[block] + lengths[block]; at++, n++)
			EXPECT((&in->at[0][0])[at] == value(0, at), "element %d of pieces is %d",
			       at, (&in->at[0][0])[at]);
	}
	for (int at = 0; at < ROWS * COLUMNS; at++)
		n -= (&in->at[0][0])[at] != -1;
	EXPECT(!n, "%d elements besides the pieces are written", -n);
	MUST(MPI_Type_free(&indexed));
	MUST(MPI_Type_free(&array));
	free(in);
}

struct record {
	char letter;
	double real;
	short numbers[3];
};

static void structures(MPI_Comm comm)
{
	enum { COUNT = 3000 };
	static const int lengths[] = { 1, 1, 3 };
	const MPI_Aint places[] = { offsetof(struct record, letter), offsetof(struct record, real),
				    offsetof(struct record, numbers) };
	const MPI_Datatype types[] = { MPI_CHAR, MPI_DOUBLE, MPI_SHORT };
	struct record *out = calloc(COUNT, sizeof(*out)), *in = malloc(COUNT * sizeof(*in));
	MPI_Datatype bare, record;
	int bytes;

	memset(in, 0x55, COUNT * sizeof(*in));
	MUST(MPI_Type_create_struct(3, lengths, places, types, &bare));
	MUST(MPI_Type_create_resized(bare, 0, sizeof(struct record), &record));
	MUST(MPI_Type_commit(&record));
	MUST(MPI_Type_size(record, &bytes));
	EXPECT(bytes == 15, "a record has %d bytes", bytes);
	for (int n = 0; n < COUNT; n++) {
		out[n].letter = 'a' + n % 26;
		out[n].real = rank + n / 8.0;
		for (int at = 0; at < 3; at++)
			out[n].numbers[at] = 3 * n + at + rank;
	}
	MUST(MPI_Sendrecv(out, COUNT, record, after(1), 1, in, COUNT, record, before(1), 1, comm,
			  MPI_STATUS_IGNORE));
	for (int n = 0; n < COUNT; n++) {
		int whole = in[n].letter == 'a' + n % 26 && in[n].real == before(1) + n / 8.0;

		for (int at = 0; at < 3; at++)
			whole &= in[n].numbers[at] == (short)(3 * n + at + before(1));
		EXPECT(whole, "record %d is another one", n);
		EXPECT(((char *)&in[n])[1] == 0x55, "in record %d a gap is written", n);
	}
	MUST(MPI_Type_free(&record));
	MUST(MPI_Type_free(&bare));
	free(in);
	free(out);
}

/* As packed bytes, and unpacked as they are again; also what is packed here and typed there. */
static void packs(MPI_Comm comm)
{
	char bytes[400], text[] = "packed text";
	int numbers[20], got[20], room = sizeof(bytes), at = 0, in = 0;
	double real = rank / 3.0, came = 0;
	MPI_Status status;

	for (int n = 0; n < 20; n++)
		numbers[n] = 100 * rank + n;
	MUST(MPI_Pack(numbers, 20, MPI_INT, bytes, room, &at, comm));
	MUST(MPI_Pack(text, sizeof(text), MPI_CHAR, bytes, room, &at, comm));
	MUST(MPI_Pack(&real, 1, MPI_DOUBLE, bytes, room, &at, comm));
	MUST(MPI_Sendrecv_replace(bytes, at, MPI_PACKED, after(1), 1, before(1), 1, comm, &status));
	memset(text, 0, sizeof(text));
	MUST(MPI_Unpack(bytes, at, &in, got, 20, MPI_INT, comm));
	MUST(MPI_Unpack(bytes, at, &in, text, sizeof(text), MPI_CHAR, comm));
	MUST(MPI_Unpack(bytes, at, &in, &came, 1, MPI_DOUBLE, comm));
	for (int n = 0; n < 20; n++)
		EXPECT(got[n] == 100 * before(1) + n, "number %d, unpacked, is %d", n, got[n]);
	EXPECT(!strcmp(text, "packed text") && came == before(1) / 3.0, "unpacked: %s, %f", text,
	       came);
	at = 0;
	MUST(MPI_Pack(numbers, 20, MPI_INT, bytes, room, &at, comm));
	MUST(MPI_Sendrecv(bytes, at, MPI_PACKED, after(1), 2, got, 20, MPI_INT, before(1), 2, comm,
			  &status));
	for (int n = 0; n < 20; n++)
		EXPECT(got[n] == 100 * before(1) + n, "number %d, packed, came as %d", n, got[n]);
}

const struct test type_tests[] = {
	{ "columns of a matrix, as columns and as rows", columns },
	{ "a part of a matrix, and pieces of different lengths", part_of },
	{ "structures with gaps", structures },
	{ "packed bytes", packs },
	{ NULL, NULL },
};
