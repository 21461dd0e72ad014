package zabbix

import (
	"context"
	"io"

	"golang.org/x/sync/semaphore"
)

const (
	// smallBytes is the size of a request, also decompressed, up to which it needs no room: a heartbeat does not wait for requests with
	// many values.
	smallBytes = 16 << 10
	// longBytes is the size from which a request takes room for all its bytes at once, so that long requests do not wait for each other.
	longBytes = 1 << 20
	// arrivingBytes bounds the beginnings, up to longBytes each, of all requests.
	arrivingBytes = 32 << 20
)

// memory bounds the bytes of the requests that are handled. A beginning takes room as its bytes arrive: a slow peer that announces a long
// request keeps nobody waiting.
type memory struct {
	arriving *semaphore.Weighted // arrivingBytes
	long     *semaphore.Weighted // Limits.AllBytes
	most     int64               // Limits.AllBytes
}

// newMemory returns room for long requests of this size, and for beginnings.
func newMemory(most int64) *memory {
	return &memory{semaphore.NewWeighted(arrivingBytes), semaphore.NewWeighted(most), most}
}

// requestMemory is the room of one request.
type requestMemory struct {
	of       *memory
	all      int64 // bytes of the whole request, also decompressed
	bytes    int64 // that the request has
	arriving int64
	long     int64
	full     bool // the time of the request ended before there was room
}

// hold waits until there is room for n more bytes.
func (m *requestMemory) hold(ctx context.Context, n int) error {
	m.bytes += int64(n)
	sem, room, size := m.of.arriving, &m.arriving, m.bytes-smallBytes-m.arriving
	if m.bytes > longBytes {
		sem, room, size = m.of.long, &m.long, min(m.all, m.of.most)-m.long
	}
	if size <= 0 {
		return nil
	}
	if err := sem.Acquire(ctx, size); err != nil {
		m.full = true
		return err
	}
	*room += size
	return nil
}

// release returns all room of the request.
func (m *requestMemory) release() {
	m.of.arriving.Release(m.arriving)
	m.of.long.Release(m.long)
}

// heldReader is a reader that calls hold with the number of bytes that it reads.
type heldReader struct {
	io.Reader
	hold func(n int) error
}

// Read reads bytes and waits until there is room for them.
func (r heldReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if n > 0 {
		if full := r.hold(n); full != nil {
			return 0, full
		}
	}
	return n, err
}
