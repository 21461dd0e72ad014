// Package parquet writes tables as Apache Parquet files, for programs that analyse data. It writes the one form that each reader of
// Parquet understands: flat optional columns in one row group, plain values, no compression. The package has no goroutines and no locks; start
// reading at Write.
package parquet

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strconv"
)

// Kind is the type of a column in a Parquet table.
type Kind int

// Kinds.
const (
	Text    Kind = iota // UTF-8
	Integer             // 64 bits
	Number              // floating point, 64 bits
)

// Column is a column of a Parquet table.
type Column struct {
	Name string
	Kind Kind
}

// Numbers of the format: github.com/apache/parquet-format, parquet.thrift.
const (
	magic = "PAR1"

	typeInt64, typeDouble, typeByteArray = 2, 5, 6
	optional                             = 1
	convertedUTF8                        = 0
	encodingPlain, encodingRLE           = 0, 3
	dataPage                             = 0
)

// physicalType returns the number of the Parquet type in which a column's values are stored.
func (c *Column) physicalType() int64 {
	return [...]int64{Text: typeByteArray, Integer: typeInt64, Number: typeDouble}[c.Kind]
}

// Write writes rows as a Parquet file. A row has a text for each column; the texts of integers and numbers have the form of Go, and an empty one
// is no value.
func Write(w io.Writer, columns []Column, rows [][]string) error {
	file := []byte(magic)
	var group, chunks compactEncoder // metadata of the columns
	total := int64(0)
	for i := range columns {
		values, err := page(&columns[i], rows, i)
		if err != nil {
			return err
		}
		offset := int64(len(file))
		var header compactEncoder
		header.integer(1, dataPage)
		header.integer(2, int64(len(values)))
		header.integer(3, int64(len(values)))
		header.structure(5)
		header.integer(1, int64(len(rows)))
		header.integer(2, encodingPlain)
		header.integer(3, encodingRLE)
		header.integer(4, encodingRLE)
		header.end()
		header.end()
		file = append(append(file, header.data...), values...)
		size := int64(len(file)) - offset
		total += size
		chunks.element()
		chunks.long(2, offset)
		chunks.structure(3)
		chunks.integer(1, columns[i].physicalType())
		chunks.list(2, typeI32, 2)
		chunks.zigzag(encodingPlain)
		chunks.zigzag(encodingRLE)
		chunks.list(3, typeBinary, 1)
		chunks.bytes(columns[i].Name)
		chunks.integer(4, 0) // no compression
		chunks.long(5, int64(len(rows)))
		chunks.long(6, size)
		chunks.long(7, size)
		chunks.long(9, offset)
		chunks.end()
		chunks.end()
	}
	group.integer(1, 1) // version
	group.list(2, typeStruct, len(columns)+1)
	group.element()
	group.text(4, "schema")
	group.integer(5, int64(len(columns)))
	group.end()
	for i := range columns {
		group.element()
		group.integer(1, columns[i].physicalType())
		group.integer(3, optional)
		group.text(4, columns[i].Name)
		if columns[i].Kind == Text {
			group.integer(6, convertedUTF8)
		}
		group.end()
	}
	group.long(3, int64(len(rows)))
	group.list(4, typeStruct, 1)
	group.element()
	group.list(1, typeStruct, len(columns))
	group.data = append(group.data, chunks.data...)
	group.long(2, total)
	group.long(3, int64(len(rows)))
	group.end()
	group.text(6, "muster")
	group.end()
	file = append(file, group.data...)
	file = binary.LittleEndian.AppendUint32(file, uint32(len(group.data)))
	_, err := w.Write(append(file, magic...))
	return err
}

// page encodes one column's values of all rows as a Parquet data page. First it has for each row whether it has
// a value, as runs of equal bits, then the values.
func page(c *Column, rows [][]string, column int) ([]byte, error) {
	var levels, values []byte
	for at := 0; at < len(rows); {
		end, present := at, rows[at][column] != ""
		for end < len(rows) && (rows[end][column] != "") == present {
			end++
		}
		levels = binary.AppendUvarint(levels, uint64(end-at)<<1)
		level := byte(0)
		if present {
			level = 1
		}
		levels, at = append(levels, level), end
	}
	for _, row := range rows {
		text := row[column]
		switch {
		case text == "":
		case c.Kind == Integer:
			v, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("write column %s: %w", c.Name, err)
			}
			values = binary.LittleEndian.AppendUint64(values, uint64(v))
		case c.Kind == Number:
			v, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return nil, fmt.Errorf("write column %s: %w", c.Name, err)
			}
			values = binary.LittleEndian.AppendUint64(values, math.Float64bits(v))
		default:
			values = append(binary.LittleEndian.AppendUint32(values, uint32(len(text))), text...)
		}
	}
	out := binary.LittleEndian.AppendUint32(nil, uint32(len(levels)))
	return append(append(out, levels...), values...), nil
}
