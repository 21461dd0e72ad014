package textlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unsafe"

	"github.com/klauspost/compress/zstd"

	"github.com/muster-fleet/muster/internal/model"
)

// Row is one text or log value of an item.
type Row struct {
	Node model.NodeID
	Unit model.UnitID // the Template
	Key  string       // of the item
	At   int64        // Unix ns
	Text string
}

// stream identifies a series of text values by node, Template and item key.
type stream struct {
	node model.NodeID
	unit model.UnitID
	key  string
}

// rowEncoder encodes the rows (text values) of a block, with metadata and texts in separate parts. Each part
// compresses well. A head has stream, time and length. A head names its stream by the number of the first row
// of the block that has it (from 1), or by 0 and its parts; the time is the difference to the row before.
type rowEncoder struct {
	heads, texts    []byte
	streams         map[stream]int
	at              int64 // of the last row
	earliest, ended int64 // earliest and latest time
	rows            int
}

// append encodes one row (text value) into the block.
func (e *rowEncoder) append(r *Row) {
	of := stream{r.Node, r.Unit, r.Key}
	if number, known := e.streams[of]; known {
		e.heads = binary.AppendUvarint(e.heads, uint64(number))
	} else {
		if e.streams == nil {
			e.streams = map[stream]int{}
		}
		e.streams[of] = len(e.streams) + 1
		e.heads = binary.AppendUvarint(append(e.heads, 0), uint64(r.Node))
		e.heads = binary.AppendUvarint(e.heads, uint64(r.Unit))
		e.heads = append(binary.AppendUvarint(e.heads, uint64(len(r.Key))), r.Key...)
	}
	e.heads = binary.AppendVarint(e.heads, r.At-e.at)
	e.heads = binary.AppendUvarint(e.heads, uint64(len(r.Text)))
	e.texts = append(e.texts, r.Text...)
	if e.rows == 0 || r.At < e.earliest {
		e.earliest = r.At
	}
	if e.rows == 0 || r.At > e.ended {
		e.ended = r.At
	}
	e.at = r.At
	e.rows++
}

// size returns the size of the encoded rows in bytes.
func (e *rowEncoder) size() int { return len(e.heads) + len(e.texts) }

// body appends all encoded rows of the block to dst. They are the length of the heads, the heads, and the texts.
func (e *rowEncoder) body(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(e.heads)))
	return append(append(dst, e.heads...), e.texts...)
}

// errBlock reports a block that is damaged.
var errBlock = errors.New("the block is damaged")

// rowDecoder decodes the rows of a block. Next fills row, whose texts are a part of the block.
type rowDecoder struct {
	heads, texts []byte
	streams      []stream
	row          Row
	offset       int // of the text of row in texts
	failed       bool
}

// newRowDecoder returns a decoder of the rows in the decompressed body of a stored block.
func newRowDecoder(body []byte) (*rowDecoder, error) {
	n, size := binary.Uvarint(body)
	if size <= 0 || n > uint64(len(body)-size) {
		return nil, errBlock
	}
	body = body[size:]
	return &rowDecoder{heads: body[:n], texts: body[n:]}, nil
}

// next decodes the next row. It returns false at the end, or where the block is damaged.
func (d *rowDecoder) next() bool {
	if len(d.heads) == 0 || d.failed {
		return false
	}
	d.offset += len(d.row.Text)
	switch number := d.uvarint(math.MaxUint32); {
	case number == 0:
		of := stream{node: model.NodeID(d.uvarint(math.MaxUint32)), unit: model.UnitID(d.uvarint(math.MaxUint32))}
		n := d.uvarint(uint64(len(d.heads)))
		if d.failed || n > uint64(len(d.heads)) {
			d.failed = true
			return false
		}
		of.key, d.heads = string(d.heads[:n]), d.heads[n:]
		d.streams = append(d.streams, of)
		d.row.Node, d.row.Unit, d.row.Key = of.node, of.unit, of.key
	case number <= uint64(len(d.streams)):
		of := &d.streams[number-1]
		d.row.Node, d.row.Unit, d.row.Key = of.node, of.unit, of.key
	default:
		d.failed = true
	}
	delta, n := binary.Varint(d.heads)
	if n <= 0 {
		d.failed = true
		return false
	}
	d.heads = d.heads[n:]
	d.row.At += delta
	length := d.uvarint(uint64(len(d.texts) - d.offset))
	if d.failed {
		return false
	}
	text := d.texts[d.offset : d.offset+int(length)]
	d.row.Text = unsafe.String(unsafe.SliceData(text), len(text))
	return true
}

// err returns the error errBlock if the decoder found the block damaged. Call it after next has returned false.
func (d *rowDecoder) err() error {
	if d.failed || d.offset+len(d.row.Text) != len(d.texts) {
		return errBlock
	}
	return nil
}

// uvarint decodes the next varint, and marks the block as damaged if the number exceeds a limit.
func (d *rowDecoder) uvarint(most uint64) uint64 {
	v, n := binary.Uvarint(d.heads)
	if n <= 0 || v > most {
		d.failed, d.heads = true, nil
		return 0
	}
	d.heads = d.heads[n:]
	return v
}

// formZstd is the first byte of a stored body: the rest is compressed by zstd.
const formZstd byte = 1

// compression compresses and decompresses the bodies of blocks, each a list of text rows.
type compression struct {
	writer *zstd.Encoder
	reader *zstd.Decoder
}

// maxBody limits the size of a body in memory. A block has all rows of its last commit.
const maxBody = 64 << 20

// newCompression returns a compressor and decompressor for the bodies of blocks.
func newCompression() (c compression, err error) {
	if c.writer, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithLowerEncoderMem(true)); err == nil {
		c.reader, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxBody))
	}
	return c, err
}

// compressBody compresses the body of a block, for storage in the database.
func (c *compression) compressBody(body []byte) []byte {
	return c.writer.EncodeAll(body, []byte{formZstd})
}

// decompressBody decompresses the body of a stored block. It uses the memory of dst if dst is large enough.
func (c *compression) decompressBody(stored, dst []byte) ([]byte, error) {
	if len(stored) == 0 || stored[0] != formZstd {
		return nil, errBlock
	}
	body, err := c.reader.DecodeAll(stored[1:], dst[:0])
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errBlock, err)
	}
	return body, nil
}
