package cli

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/muster-fleet/muster/internal/cli/screen"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/doctor"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/version"
)

// bundleWriter collects the parts of a debug bundle, the server's data for a bug report, into one archive.
type bundleWriter struct {
	out, admin, data string
	seconds          int           // of profiles
	timeout          time.Duration // of one part, without seconds
	target           client.Context
	api              *client.Client
	apiErr           error // why api is nil
}

// bundleCommand makes the command muster debug bundle.
func bundleCommand(s *commandLine) *cobra.Command {
	var b bundleWriter
	timeout := model.Duration(10 * time.Second)
	return s.buildCommand(command{
		use: "bundle", short: "Pack profiles, goroutines, settings, queues, metrics and the log into one file",
		args: cobra.NoArgs, offline: true, noFormat: true,
		flags: func(flags *pflag.FlagSet) {
			flags.StringVar(&b.out, "out", "", "file to write; default: muster-bundle-TIME.tar.gz in this folder")
			flags.StringVar(&b.admin, "admin", "", "admin listener of the server; default: the context's, else "+defaultAdmin)
			flags.StringVar(&b.data, "data", "", "data folder of the server; default: the context's, else ./muster-data, else /var/lib/muster")
			flags.IntVar(&b.seconds, "seconds", 5, "length of the profiles of CPU, mutexes and blocking")
			flags.Var(&durationFlag{&timeout}, "timeout", "longest time for one part (without --seconds)")
		},
		run: func(c *commandCall) error {
			b.timeout = time.Duration(timeout)
			return writeBundle(c, b)
		},
	})
}

// writeBundle collects the files of a debug bundle, and writes one archive with all files.
func writeBundle(c *commandCall, b bundleWriter) (err error) {
	if b.seconds < 1 || b.seconds > 60 {
		return model.Errorf(model.Invalid, "--seconds %d: expected 1 to 60", b.seconds)
	}
	if b.target, err = c.clientContext(); err != nil {
		return err
	}
	b.api, b.apiErr = c.connect()
	b.admin = adminURL(cmp.Or(b.admin, b.target.Admin, defaultAdmin))
	b.data = cmp.Or(b.data, b.target.Data, usualDataFolder())
	now := c.Now()
	folder := "muster-bundle-" + now.UTC().Format("20060102-150405")
	b.out = cmp.Or(b.out, folder+".tar.gz")
	file, err := os.OpenFile(b.out, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return model.Errorf(model.Invalid, "write the debug bundle: %w", err).WithHint("name another file: --out FILE")
	}
	c.Notef(2, "collecting from %s for %d s …", b.admin, b.seconds)
	parts := b.bundleFiles()
	err = writeArchive(c.ctx, file, folder, "Muster's debug bundle, of the server at "+b.admin, now, parts)
	if err = errors.Join(err, file.Close()); err != nil || c.ctx.Err() != nil {
		_ = os.Remove(b.out)
		return errors.Join(err, c.ctx.Err())
	}
	whole := len(parts)
	for _, p := range parts {
		if p.missing != "" {
			c.Notef(2, "  %s %s: %s", screen.Cell{Text: "missing", Colour: screen.Yellow}, p.Name, p.missing)
			whole--
		}
	}
	if whole == 0 {
		_ = os.Remove(b.out)
		return model.Errorf(model.Unavailable, "cannot collect any data from the server at %s", b.admin).
			WithHint("name the admin listener and the data folder: --admin HOST:PORT --data DIR")
	}
	c.Printf("%s: %d of %s\n", b.out, whole, model.CountNoun(len(parts), "part"))
	return nil
}

// bundleFiles returns all files of a debug bundle, each with the function that reads its content. They come
// from the admin listener, the API, and the user's machine.
func (b *bundleWriter) bundleFiles() []bundleFile {
	window := strconv.Itoa(b.seconds)
	profiled := b.timeout + time.Duration(b.seconds)*time.Second
	admin := func(name, description, path string, timeout time.Duration) bundleFile {
		return bundleFile{Name: name, Description: description, Timeout: timeout, Get: func(ctx context.Context) ([]byte, error) {
			return fetchAdminPage(ctx, b.admin+path)
		}}
	}
	local := func(name, description string, get func(context.Context) ([]byte, error)) bundleFile {
		return bundleFile{Name: name, Description: description, Timeout: b.timeout, Get: get}
	}
	return []bundleFile{
		admin("version.json", "the server's build", "/debug/version", b.timeout),
		admin("config.json", "settings in force, without secrets", "/debug/config", b.timeout),
		admin("readyz.txt", "readiness, with the reason", "/readyz", b.timeout),
		admin("queues.json", "depth and capacity of every queue", "/queues", b.timeout),
		admin("metrics.txt", "all metrics", "/metrics", b.timeout),
		admin("log.txt", "the end of the log, from memory", "/debug/log", b.timeout),
		admin("goroutines.txt", "every goroutine with its stack", "/debug/pprof/goroutine?debug=2", b.timeout),
		admin("cpu.pprof", "CPU profile", "/debug/pprof/profile?seconds="+window, profiled),
		admin("heap.pprof", "live memory", "/debug/pprof/heap", b.timeout),
		admin("allocs.pprof", "all allocations since the start", "/debug/pprof/allocs", b.timeout),
		admin("goroutine.pprof", "goroutines, as a profile", "/debug/pprof/goroutine", b.timeout),
		admin("mutex.pprof", "goroutines that wait for locks", "/debug/pprof/mutex?seconds="+window, profiled),
		admin("block.pprof", "goroutines that wait, of every kind", "/debug/pprof/block?seconds="+window, profiled),
		local("status.json", "the output of muster status", func(ctx context.Context) ([]byte, error) {
			if b.apiErr != nil {
				return nil, b.apiErr
			}
			status, err := b.api.Status(ctx, "")
			if err != nil {
				return nil, err
			}
			return json.MarshalIndent(status, "", "  ")
		}),
		{Name: "doctor.txt", Description: "findings of muster doctor on this machine", Timeout: b.timeout + 10*time.Second, Get: b.doctorFindings},
		local("logfile.txt", "the end of the log file", b.endOfLogFile),
		local("process.txt", "the kernel's files about the process", b.serverProcessFiles),
		local("client.txt", "the build of this command", func(context.Context) ([]byte, error) {
			return fmt.Appendf(nil, "%s %s/%s\n", version.Get(), runtime.GOOS, runtime.GOARCH), nil
		}),
	}
}

// fetchAdminPage requests a page of the server's admin listener by HTTP, such as metrics. It keeps the text of
// an answer other than 200: a readyz with the reason is worth having.
func fetchAdminPage(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{DisableKeepAlives: true} // and no proxy: the listener is on this machine
	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		var op interface{ Unwrap() error }
		if errors.As(err, &op) && ctx.Err() == nil {
			err = op.Unwrap() // without the address, which stands beside it
		}
		return nil, err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(io.LimitReader(answer.Body, 256<<20))
	if err == nil && answer.StatusCode != http.StatusOK && len(data) == 0 {
		err = errors.New(answer.Status)
	}
	return data, err
}

// doctorFindings returns the findings of muster doctor as a file of the bundle.
func (b *bundleWriter) doctorFindings(ctx context.Context) ([]byte, error) {
	p := doctor.Target{Data: b.data, Budget: 4 << 30, Agents: 1000, URL: b.target.Server, CA: []byte(b.target.CA)}
	readServerSettings(ctx, b.admin, &p, func(setting string) bool { return setting == "data" })
	var out bytes.Buffer
	err := printFindings(&screen.Screen{Out: &out}, doctor.Examine(ctx, p))
	return out.Bytes(), err
}

// endOfLogFile returns the last part of the server's log file, for a server that does not answer.
func (b *bundleWriter) endOfLogFile(context.Context) ([]byte, error) {
	const most = 1 << 20 // bytes
	f, err := os.Open(filepath.Join(b.data, "muster.log"))
	if err != nil {
		return nil, fmt.Errorf("%w; if the server is a systemd service, read its log with journalctl -u muster", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > most {
		if _, err := f.Seek(-most, io.SeekEnd); err != nil {
			return nil, err
		}
	}
	return io.ReadAll(io.LimitReader(f, most))
}

// serverProcessFiles returns files of /proc about the server process, whose id the data folder's lock file
// contains.
func (b *bundleWriter) serverProcessFiles(context.Context) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(b.data, "LOCK"))
	if err != nil {
		return nil, err
	}
	pid := strings.TrimSpace(string(text))
	var out bytes.Buffer
	for _, name := range []string{"status", "limits", "io", "sched", "wchan", "cgroup"} {
		data, err := os.ReadFile(filepath.Join("/proc", pid, name))
		if err != nil {
			fmt.Fprintf(&out, "== %s: %v\n", name, err)
			continue
		}
		fmt.Fprintf(&out, "== %s\n%s\n", name, data)
	}
	return out.Bytes(), nil
}

// adminURL converts the address of the server's admin listener, HOST:PORT or a URL, to a URL.
func adminURL(text string) string {
	if strings.Contains(text, "://") {
		return strings.TrimRight(text, "/")
	}
	return "http://" + text
}

// bundleFile is one file of a debug bundle, with the function that reads its content
type bundleFile struct {
	Name        string // of the file
	Description string // its description in the README
	Timeout     time.Duration
	// Get returns the file's content. Content that comes with an error is kept.
	Get func(context.Context) ([]byte, error)

	content []byte
	missing string // the reason why the file is missing, or not whole
}

// maxPart limits one file, in bytes. The rest is cut off, and the part is listed as missing.
const maxPart = 64 << 20

// writeArchive reads all files of a debug bundle in parallel, and writes one tar.gz archive. The archive also has a
// README. It returns an error only if writing to w fails.
func writeArchive(ctx context.Context, w io.Writer, folder, title string, at time.Time, parts []bundleFile) error {
	var all sync.WaitGroup
	for i := range parts {
		all.Go(func() { parts[i].fetchContent(ctx) })
	}
	all.Wait()
	compressed := gzip.NewWriter(w)
	archive := tar.NewWriter(compressed)
	var err error
	for _, p := range append([]bundleFile{{Name: "README.txt", content: bundleReadme(title, at, parts)}}, parts...) {
		if err != nil || len(p.content) == 0 {
			continue
		}
		err = archive.WriteHeader(&tar.Header{Name: folder + "/" + p.Name, Mode: 0o600, Size: int64(len(p.content)), ModTime: at, Format: tar.FormatPAX})
		if err == nil {
			_, err = archive.Write(p.content)
		}
	}
	if err = errors.Join(err, archive.Close(), compressed.Close()); err != nil {
		return fmt.Errorf("write the debug bundle: %w", err)
	}
	return nil
}

// fetchContent reads the content of one file of a debug bundle, within a time limit. A goroutine whose Get ignores
// its context is left behind.
func (p *bundleFile) fetchContent(ctx context.Context) {
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
		p.missing = fmt.Sprintf("no answer within %s", p.Timeout)
	case r.err != nil:
		p.missing = r.err.Error()
	case len(r.data) == 0:
		p.missing = "empty"
	case len(r.data) > maxPart:
		p.missing = fmt.Sprintf("truncated: the first %d of %d bytes", maxPart, len(r.data))
	}
	p.content = r.data[:min(len(r.data), maxPart)]
}

// bundleReadme returns the README of a debug bundle. It lists the files, and the missing files with the reasons.
func bundleReadme(title string, at time.Time, parts []bundleFile) []byte {
	missing, here := "", ""
	for _, p := range parts {
		missing += textIf(p.missing != "", fmt.Sprintf("  %-18s %s\n", p.Name, strings.ReplaceAll(p.missing, "\n", "\n                     ")))
		here += textIf(len(p.content) > 0, fmt.Sprintf("  %-18s %s\n", p.Name, p.Description))
	}
	if missing != "" {
		missing = "MISSING\n" + missing + "\n"
	}
	return fmt.Appendf(nil, "%s\ncollected %s\n\nThe bundle contains no passwords and no tokens. It contains names of hosts, nodes and checks:\nreview it before you pass it on.\n\n"+
		"%sHERE\n%s\nProfiles open with: go tool pprof -http=: FILE\n", title, at.Format(time.RFC3339), missing, here)
}
