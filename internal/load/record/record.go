// Package record makes a recorded stream (internal/load/stream) of a server's journal, and follows the journal of a
// running server. Only numbers leave the journal.
//
// The stream is in the order of execution times, and results arrive later: the results of the last ten seconds wait and are
// sorted. Other memory grows with the fleet (its nodes, their checks), not with the recording.
//
// No goroutines, no locks. Start reading at Journal, then recorder.go.
package record

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/load/stream"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// Options select the recorded part.
type Options struct {
	Journal string    // its folder
	Since   time.Time // receipt of the first result; zero: the whole journal
	Until   time.Time // end of receipt; zero: the end of the journal

	// More waits for the journal to grow, and reports whether to read on; it is called at the end of the journal, before
	// Until. nil: the journal does not grow.
	More func() bool
}

// Folder returns the journal's folder in a data folder, or the folder itself if it is one.
func Folder(data string) string {
	if _, err := os.Stat(filepath.Join(data, "FORMAT")); err == nil {
		return data
	}
	return filepath.Join(data, "journal")
}

// Journal writes the stream of a journal. A time without results is an Invalid error.
func Journal(ctx context.Context, o Options, out io.Writer) (*stream.Head, error) {
	w, err := stream.NewWriter(out)
	if err != nil {
		return nil, err
	}
	r := newRecorder(w)
	enough := errors.New("enough")
	more := func() bool { return o.More != nil && o.More() }
	err = journal.Follow(ctx, o.Journal, journal.Options{}, more, func(c journal.Commit) error {
		received := c.Received()
		if !o.Until.IsZero() && received >= o.Until.UnixNano() {
			return enough
		}
		if !o.Since.IsZero() && received < o.Since.UnixNano() {
			return nil
		}
		return r.commit(c)
	})
	if errors.Is(err, journal.ErrTrimmed) {
		return nil, model.Errorf(model.Conflict, "the server cut its journal before all of it was read: %w", err).WithHint("record less at once, or from now on: --for 10m")
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil, model.Errorf(model.Forbidden, "%w", err).WithHint("the folder is its owner's: type muster load record as that user, with sudo -u")
	}
	if err != nil && !errors.Is(err, enough) {
		return nil, err
	}
	h, err := r.end()
	if err != nil {
		return nil, err
	}
	return h, w.Close(h)
}

// commit records the batches of a commit.
func (r *recorder) commit(c journal.Commit) error {
	if err := r.settle(c.Received() / 1e6); err != nil {
		return err
	}
	for _, section := range c.Sections() {
		err := c.Entries(section, func(data []byte) error {
			if len(data) == 0 || wire.RecordKind(data[0]) != wire.RecordBatch {
				return nil
			}
			if err := r.record.Decode(data); err != nil {
				return err
			}
			return r.batch(r.record.Node, r.record.Batch, c.Received())
		})
		if err != nil {
			return model.Errorf(model.Internal, "commit %d of the journal: %w", c.Position().Number, err)
		}
	}
	return nil
}
