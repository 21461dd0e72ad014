package loadcmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/load/record"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pause"
)

// recording has the flags of `muster load record`.
type recording struct {
	data, since, out string
	length           time.Duration
}

// recordCommand makes the command muster load record.
func recordCommand() *cobra.Command {
	var r recording
	cmd := &cobra.Command{
		Use:   "record --data DIR --out FILE",
		Short: "Record what a server's agents send, for a scenario that plays it again",
		Long: `Reads a server's journal and writes a recorded stream: when which node sent a result of which check, with
which status and how long an output. Nodes and checks become numbers; names, outputs, labels and commands
are never in it. The server may run or not; a copy of its journal will do.

Without --since and --for the whole journal is recorded, from the oldest result that the server's snapshots
do not have. --for alone records a server that runs, from now on; Ctrl-C ends that earlier.
docs/load-reference.md says how a scenario plays it, docs/stream-format.md what is in it.`,
		Example: "  muster load record --data /var/lib/muster --for 1h --out monday.stream\n" +
			"  muster load record --data ./muster-data --since 10m --out last.stream\n" +
			"  muster load record --data copy --since 2026-11-23T08:00:00Z --for 1h --out eight.stream",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return r.record(cmd, time.Now()) },
	}
	f := cmd.Flags()
	f.StringVar(&r.data, "data", "./muster-data", "the server's data folder, or the folder of its journal; who owns it may read it")
	f.StringVar(&r.out, "out", "", "the file to write")
	f.StringVar(&r.since, "since", "", "leave out earlier results: a time (2026-11-23T08:00:00Z, or 2026-11-23 08:00 local time), or so long ago (10m)")
	f.DurationVar(&r.length, "for", 0, "length of the recording from --since on; without --since from now on")
	return cmd
}

// options returns the options with absolute times.
func (r *recording) options(now time.Time) (o record.Options, err error) {
	o.Journal = record.Folder(r.data)
	if o.Since, err = absoluteTime(r.since, now); err != nil {
		return o, err
	}
	if r.length < 0 {
		return o, model.Errorf(model.Invalid, "--for %s: want a length, such as 10m", r.length)
	}
	if r.length > 0 {
		if o.Since.IsZero() {
			o.Since = now
		}
		o.Until = o.Since.Add(r.length)
	}
	return o, nil
}

// absoluteTime returns the value of --since: a time, or so long ago.
func absoluteTime(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := model.ParseDuration(text); err == nil && ago > 0 {
		return now.Add(-time.Duration(ago)), nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02"} {
		if at, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return at, nil
		}
	}
	return time.Time{}, model.Errorf(model.Invalid, "--since %q is no time", text).WithHint("--since 2026-11-23T08:00:00Z, --since '2026-11-23 08:00', or --since 10m for ten minutes ago")
}

// record records the journal into the file.
func (r *recording) record(cmd *cobra.Command, now time.Time) error {
	o, err := r.options(now)
	if err == nil && r.out == "" {
		err = model.Errorf(model.Invalid, "there is no file to write").WithHint("name it: --out last.stream")
	}
	if err != nil {
		return err
	}
	if _, err := os.Lstat(r.out); err == nil {
		return model.Errorf(model.Guarded, "%s exists already", r.out).WithHint("name another file with -o, or remove it")
	}
	ctx := cmd.Context()
	reading := ctx
	if o.Until.After(now) {
		o.More = listen(ctx, o.Until)
		reading = context.WithoutCancel(ctx) // Ctrl-C keeps the recording
		fmt.Fprintf(cmd.ErrOrStderr(), "listening until %s; Ctrl-C ends it earlier\n", o.Until.Format(time.RFC3339))
	}
	part := r.out + ".new"
	file, err := os.OpenFile(part, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		return model.Errorf(model.Invalid, "write the stream: %w", err)
	}
	out := bufio.NewWriterSize(file, 256<<10)
	h, err := record.Journal(reading, o, out)
	if err == nil {
		err = out.Flush()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(part, r.out)
	}
	if err != nil {
		_ = os.Remove(part)
		return err
	}
	info, err := os.Stat(r.out)
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s (%s): %s\n", r.out, model.Size(info.Size()).Approximate(), scenario.StreamInWords(h))
	fmt.Fprintf(cmd.OutOrStdout(), "play it: agents: [{name: recorded, recorded: {file: %s, times: 1}}]\n", r.out)
	return nil
}

// listen waits for more of the journal, until a time and a little longer: results that were received before it may not be
// on the disk yet. After the end of ctx there is one more look.
func listen(ctx context.Context, until time.Time) func() bool {
	const look, after = 250 * time.Millisecond, 5 * time.Second
	ended := false
	return func() bool {
		if ended {
			return false
		}
		ended = pause.For(ctx, look) != nil
		return ended || time.Now().Before(until.Add(after))
	}
}
