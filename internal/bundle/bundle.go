// Package bundle packs a support bundle: one tar.gz of parts, each fetched by a function
// that may fail or hang without the others. In: parts. Out: the archive, and the missing
// parts with their reasons, which the README of the archive lists too.
//
// Every part runs in a goroutine of its own with its own time-out. Write waits for all of
// them, or for their time-outs; a part that ignores its context outlives Write. No locks.
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
	What    string // its description in the README
	Timeout time.Duration
	// Get returns the file's content. Content that comes with an error is kept.
	Get func(context.Context) ([]byte, error)
}

// Missing is a part that is not in the bundle, or not whole, with the reason.
type Missing struct {
	Name string
	Why  string
}

// maxPart limits one file, in bytes. The rest is cut off, and the part is listed as Missing.
const maxPart = 64 << 20

// Write fetches all parts at the same time and writes them as folder/NAME into one tar.gz,
// a README first, then in the order of parts. It returns an error only if writing to w fails.
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

// get runs one part. It leaves the goroutine of a part that ignores its context behind.
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
		why = "empty"
	case len(r.data) > maxPart:
		why = fmt.Sprintf("cut: only the first %d of %d bytes are here", maxPart, len(r.data))
	}
	return r.data[:min(len(r.data), maxPart)], why
}

// readme lists the parts, and the missing ones with their reasons.
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
