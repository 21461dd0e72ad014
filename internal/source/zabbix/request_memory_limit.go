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

// memoryLimit limits how many bytes all requests in progress may use together. A beginning takes room as its bytes arrive:
// a slow peer that announces a long request keeps nobody waiting. A request without room for its beginning waits for
// room for all its bytes: no request waits for another one that waits.
type memoryLimit struct {
	arriving *semaphore.Weighted // arrivingBytes
	long     *semaphore.Weighted // Limits.AllBytes
	most     int64               // Limits.AllBytes
}

// newMemoryLimit returns a limit of `most` bytes for the memory of all large requests. Small requests and beginnings have
// additional room.
func newMemoryLimit(most int64) *memoryLimit {
	return &memoryLimit{semaphore.NewWeighted(arrivingBytes), semaphore.NewWeighted(most), most}
}

// requestMemory is the memory that one request uses within the limit.
type requestMemory struct {
	of       *memoryLimit
	all      int64 // bytes of the whole request, also decompressed
	bytes    int64 // that the request has
	arriving int64
	long     int64 // all bytes, or nothing yet
	full     bool  // the time of the request ended before there was room
}

// acquire waits until n more bytes fit in the memory limit, and reserves the bytes.
func (m *requestMemory) acquire(ctx context.Context, n int) error {
	m.bytes += int64(n)
	size := m.bytes - smallBytes - m.arriving
	if size <= 0 || m.long > 0 {
		return nil
	}
	if m.bytes <= longBytes && m.of.arriving.TryAcquire(size) {
		m.arriving += size
		return nil
	}
	all := min(m.all, m.of.most)
	if err := m.of.long.Acquire(ctx, all); err != nil {
		m.full = true
		return err
	}
	m.of.arriving.Release(m.arriving)
	m.arriving, m.long = 0, all
	return nil
}

// release gives back all memory of the request.
func (m *requestMemory) release() {
	m.of.arriving.Release(m.arriving)
	m.of.long.Release(m.long)
}

// limitedReader is a reader that waits until the memory limit allows the bytes read.
type limitedReader struct {
	io.Reader
	hold func(n int) error
}

// Read reads bytes, and waits until the limit on request memory allows the bytes.
func (r limitedReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if n > 0 {
		if full := r.hold(n); full != nil {
			return 0, full
		}
	}
	return n, err
}
