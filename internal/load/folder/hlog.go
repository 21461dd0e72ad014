package folder

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// hlog writes a log of histograms, one for each second, as a run goes on: version 1.3 of
// the format of HdrHistogram's tools. Values are in microseconds. The column that shows
// each second's greatest is in milliseconds, as in the logs that those tools make: the
// library's writer knows no other divisor than theirs, which is for nanoseconds.
type hlog struct {
	mu      sync.Mutex
	file    *os.File
	out     *bufio.Writer
	started bool
	err     error // the first
}

func newHlog(path string) (*hlog, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("write latencies: %w", err)
	}
	return &hlog{file: file, out: bufio.NewWriter(file)}, nil
}

// Second keeps the latencies of the second that began at from, or of as long as the
// histogram says. It is Config.Second of a run.
func (f *Folder) Second(from time.Time, h *hdrhistogram.Histogram) {
	l := f.hlog
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil || l.err != nil {
		return
	}
	if err := l.write(from, h); err != nil {
		l.err = fmt.Errorf("write latencies: %w", err)
	}
}

const (
	hlogHead = "#[Histogram log format version 1.3]\n" +
		"#[Latencies in microseconds; Interval_Max in milliseconds; Tag=warmup was not measured]\n" +
		"#[StartTime: %.3f (seconds since epoch), %s]\n" +
		"\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n"
	microsPerMs = 1000
)

func (l *hlog) write(from time.Time, h *hdrhistogram.Histogram) error {
	start := float64(from.UnixMilli()) / 1000
	if !l.started {
		l.started = true
		fmt.Fprintf(l.out, hlogHead, start, from.UTC().Format(time.RFC3339))
	}
	payload, err := h.EncodeV2()
	if err != nil {
		return err
	}
	length := time.Second
	if ms := h.EndTimeMs() - h.StartTimeMs(); ms > 0 {
		length = time.Duration(ms) * time.Millisecond
	}
	if tag := h.Tag(); tag != "" {
		fmt.Fprintf(l.out, "Tag=%s,", tag)
	}
	_, err = fmt.Fprintf(l.out, "%.3f,%.3f,%.3f,%s\n", start, length.Seconds(), float64(h.Max())/microsPerMs, payload)
	return errors.Join(err, l.out.Flush()) // a loader that dies leaves all but its last second
}

func (l *hlog) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return l.err
	}
	err := errors.Join(l.err, l.out.Flush(), l.file.Close())
	l.file = nil
	return err
}

// trouble is what hindered it first.
func (l *hlog) trouble() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}
