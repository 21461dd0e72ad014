// Package bundle packs what somebody needs who was not there: one tar.gz of parts, each
// got by a function that may fail or hang without the others. In: parts. Out: the
// archive, and what is missing with its reason, which a README in the archive says too.
//
// Every part runs in a goroutine of its own with its own time-out; they end with Write.
package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// Part is one file of a bundle.
type Part struct {
	Name    string // of the file
	What    string // what it is, for the README
	Timeout time.Duration
	// Get returns the file's content. What it returns beside an error is kept too.
	Get func(context.Context) ([]byte, error)
}

// Missing says why a part is not in the bundle, or not whole.
type Missing struct {
	Name string
	Why  string
}

// maxPart bounds one file, in bytes; the rest of it is cut off, and said.
const maxPart = 64 << 20

// Write gets all parts at the same time and writes them as folder/NAME into one tar.gz,
// in their order, with a README first. Its error is that of w.
func Write(ctx context.Context, w io.Writer, folder, title string, at time.Time, parts []Part) ([]Missing, error) {
	contents := make([][]byte, len(parts))
	reasons := make([]string, len(parts))
	var all sync.WaitGroup
	for i, p := range parts {
		all.Go(func() { contents[i], reasons[i] = get(ctx, p) })
	}
	all.Wait()
	var missing []Missing
	for i, why := range reasons {
		if why != "" {
			missing = append(missing, Missing{parts[i].Name, why})
		}
	}
	compressed := gzip.NewWriter(w)
	archive := tar.NewWriter(compressed)
	add := func(name string, data []byte) error {
		err := archive.WriteHeader(&tar.Header{Name: folder + "/" + name, Mode: 0o600, Size: int64(len(data)), ModTime: at, Format: tar.FormatPAX})
		if err == nil {
			_, err = archive.Write(data)
		}
		return err
	}
	err := add("README.txt", readme(title, at, parts, contents, missing))
	for i, p := range parts {
		if err == nil && len(contents[i]) > 0 {
			err = add(p.Name, contents[i])
		}
	}
	if err = errors.Join(err, archive.Close(), compressed.Close()); err != nil {
		return missing, fmt.Errorf("write bundle: %w", err)
	}
	return missing, nil
}

// get runs one part; a part that does not heed its context is left behind.
func get(ctx context.Context, p Part) (data []byte, why string) {
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	type result struct {
		data []byte
		err  error
	}
	done := make(chan result, 1)
	go func() {
		data, err := p.Get(ctx)
		done <- result{data, err}
	}()
	var r result
	select {
	case r = <-done:
	case <-ctx.Done():
		r.err = ctx.Err()
	}
	switch {
	case errors.Is(r.err, context.DeadlineExceeded):
		why = fmt.Sprintf("no answer within %s", p.Timeout)
	case r.err != nil:
		why = r.err.Error()
	case len(r.data) == 0:
		why = "it is empty"
	case len(r.data) > maxPart:
		why = fmt.Sprintf("cut: only the first %d of %d bytes are here", maxPart, len(r.data))
	}
	return r.data[:min(len(r.data), maxPart)], why
}

// readme says what is here, what is not and why.
func readme(title string, at time.Time, parts []Part, contents [][]byte, missing []Missing) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\ntaken %s\n\nIt holds no passwords and no tokens. It does hold names of hosts, nodes and checks:\nlook through it before you hand it on.\n\n", title, at.Format(time.RFC3339))
	if len(missing) > 0 {
		b.WriteString("MISSING\n")
		for _, m := range missing {
			fmt.Fprintf(&b, "  %-18s %s\n", m.Name, strings.ReplaceAll(m.Why, "\n", "\n                     "))
		}
		b.WriteByte('\n')
	}
	b.WriteString("HERE\n")
	for i, p := range parts {
		if len(contents[i]) > 0 {
			fmt.Fprintf(&b, "  %-18s %s\n", p.Name, p.What)
		}
	}
	b.WriteString("\nProfiles open with: go tool pprof -http=: FILE\n")
	return b.Bytes()
}
