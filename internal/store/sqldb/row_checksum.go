package sqldb

import (
	"database/sql"
	"database/sql/driver"
	"encoding/binary"
	"net/url"
	"sync"

	"github.com/cespare/xxhash/v2"
	"modernc.org/sqlite"
)

// RowChecksum computes a checksum over the values of a row, for storage in the same row. A value is int64,
// string, []byte or nil. Tables keep it in a column sum with CHECK (sum = row_sum(…)), so that SQLite's own
// checks find rows that the disk has changed.
func RowChecksum[V any](values ...V) int64 {
	sum, number := xxhash.New(), [8]byte{}
	for _, value := range values {
		var field []byte
		switch v := any(value).(type) {
		case int64:
			field = binary.BigEndian.AppendUint64(nil, uint64(v))
		case string:
			field = []byte(v)
		case []byte:
			field = v
		}
		_, _ = sum.Write(binary.BigEndian.AppendUint64(number[:0], uint64(len(field))))
		_, _ = sum.Write(field)
	}
	return int64(sum.Sum64())
}

// registerRowSum makes RowChecksum known to SQLite, for connections that are opened later.
var registerRowSum = sync.OnceValue(func() error {
	return sqlite.RegisterFunction("row_sum", &sqlite.FunctionImpl{NArgs: -1, Deterministic: true, VolatileArgs: true,
		Scalar: func(_ *sqlite.FunctionContext, values []driver.Value) (driver.Value, error) {
			return RowChecksum(values...), nil
		}})
})

// openFile opens a SQLite file through database/sql. options is the query of its URL.
func openFile(path, options string) (*sql.DB, error) {
	if err := registerRowSum(); err != nil {
		return nil, err
	}
	return sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?"+options)
}
