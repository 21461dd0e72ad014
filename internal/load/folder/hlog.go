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

// hlog writes an HDR interval log as a run goes on.
type hlog struct {
	mu      sync.Mutex
	file    *os.File
	out     *bufio.Writer
	log     *hdrhistogram.HistogramLogWriter
	seconds int
	err     error // the first
}

func newHlog(path string) (*hlog, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("write latencies: %w", err)
	}
	out := bufio.NewWriter(file)
	return &hlog{file: file, out: out, log: hdrhistogram.NewHistogramLogWriter(out)}, nil
}

// Second keeps the latencies of the second that began at from. It is Config.Second of a run.
func (f *Folder) Second(from time.Time, h *hdrhistogram.Histogram) {
	l := f.hlog
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil || l.err != nil {
		return
	}
	if l.seconds == 0 {
		l.head(from)
	}
	l.seconds++
	h.SetStartTimeMs(from.UnixMilli())
	h.SetEndTimeMs(from.Add(time.Second).UnixMilli())
	options := hdrhistogram.DefaultHistogramLogOptions()
	l.keep(l.log.OutputIntervalHistogramWithLogOptions(h, options))
}

func (l *hlog) head(from time.Time) {
	l.keep(l.log.OutputComment("[latency in microseconds, from the intended time to the acknowledgement]"))
	l.keep(l.log.OutputLogFormatVersion())
	l.keep(l.log.OutputStartTime(from.UnixMilli()))
	l.keep(l.log.OutputLegend())
}

func (l *hlog) keep(err error) {
	if err != nil && l.err == nil {
		l.err = fmt.Errorf("write latencies: %w", err)
	}
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
