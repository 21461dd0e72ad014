package wire

// ValueBlock is the body of SignalValueBlock: rows of one chunk's items.
type ValueBlock struct {
	Rows    uint32 // values in Columns, which has at least a byte for each
	Columns []byte
}

// AppendValueBlock writes b as the body of a signal.
func AppendValueBlock(dst []byte, b *ValueBlock) []byte {
	dst = appendUint(dst, 1, uint64(b.Rows))
	return appendBytes(dst, 2, b.Columns)
}

// Decode reads the body of a signal, which Columns aliases. Rate limits charge Rows, so that a
// block may not claim more of them than it has bytes.
func (b *ValueBlock) Decode(body []byte) error {
	*b = ValueBlock{}
	f := fields{message: "ValueBlock", rest: body}
	for f.next() {
		switch f.num {
		case 1:
			b.Rows = f.uint32("rows")
		case 2:
			b.Columns = f.raw("columns", MaxFrame)
		}
	}
	if f.err == nil && (b.Rows == 0 || int64(b.Rows) > int64(len(b.Columns))) {
		f.fail("rows", "%d in %d bytes of columns", b.Rows, len(b.Columns))
	}
	return f.err
}
