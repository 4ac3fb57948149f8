#!/usr/bin/env python3
"""Prints every row of Messages and Folders as a reader written by others returns it: read_rows.py pyesedb|dissect FILE

One line per row: table, id, version, then (Messages) conversation, properties, body or (Folders) changes; bytes as
hexadecimal digits, null as 0 or nothing.
"""
import sys

COLUMNS = {
    "Messages": ("Id", "Version", "Conversation", "Properties", "Body"),
    "Folders": ("Id", "Version", "Changes"),
}
NUMBERS = ("Id", "Version", "Conversation")


def rows_of_pyesedb(path, name):
    import pyesedb
    database = pyesedb.file()
    database.open(path)
    for record in database.get_table_by_name(name).records:
        values = {}
        for index in range(record.get_number_of_values()):
            if record.is_long_value(index):
                value = record.get_value_data_as_long_value(index).get_data()
            else:
                value = record.get_value_data(index)
            column = record.get_column_name(index)
            values[column] = int.from_bytes(value or b"", "little", signed=column == "Conversation") if column in NUMBERS else value
        yield values


def rows_of_dissect(path, name):
    from dissect.esedb import EseDB
    with open(path, "rb") as file:
        for record in EseDB(file).table(name).records():
            yield {column: record.get(column) for column in COLUMNS[name]}


def main():
    rows_of = {"pyesedb": rows_of_pyesedb, "dissect": rows_of_dissect}[sys.argv[1]]
    for name, columns in COLUMNS.items():
        for values in rows_of(sys.argv[2], name):
            shown = [str(values[c] or 0) if c in NUMBERS else (values[c] or b"").hex() for c in columns]
            print(name, *shown)


main()
