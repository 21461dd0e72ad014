package cli

import (
	"bytes"
	"cmp"
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
	"time"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/bundle"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/doctor"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/version"
)

func (a *app) debugCmd() *cobra.Command {
	c := &cobra.Command{
		Use: "debug", Short: "Gather what somebody needs who was not there", RunE: helpOf,
		Long:    "Looks into a server that misbehaves. It works beside one that hangs, too.",
		Example: "  muster debug bundle",
	}
	c.AddCommand(a.bundleCmd())
	return c
}

// bundling is what `muster debug bundle` was told.
type bundling struct {
	out, admin, data string
	seconds          int
	timeout          time.Duration
	where            client.Context
	api              *client.Client
	apiErr           error
}

func (a *app) bundleCmd() *cobra.Command {
	var b bundling
	timeout := model.Duration(10 * time.Second)
	c := &cobra.Command{
		Use:   "bundle",
		Short: "Pack profiles, goroutines, settings, queues, metrics and the log into one file",
		Long: `Packs profiles (CPU, heap, mutex, block), goroutines, settings without secrets, queues,
metrics, status, doctor's findings and the last of the log into one tar.gz. Run it on the
server's machine. Of a server that hangs or is dead it packs what can be had, and says
what is missing and why.`,
		Example: "  muster debug bundle\n  muster debug bundle --admin 127.0.0.1:8444 --data /var/lib/muster --out /tmp/muster.tar.gz",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			b.timeout = time.Duration(timeout)
			return a.bundle(c.Context(), b)
		},
	}
	c.Flags().StringVar(&b.out, "out", "", "file to write; default: muster-bundle-TIME.tar.gz here")
	c.Flags().StringVar(&b.admin, "admin", "", "the server's admin listener; default: the context's, else 127.0.0.1:8444")
	c.Flags().StringVar(&b.data, "data", "", "the server's data folder; default: the context's, else ./muster-data, else /var/lib/muster")
	c.Flags().IntVar(&b.seconds, "seconds", 5, "how long CPU, mutexes and blocking are watched")
	c.Flags().Var(&durationFlag{&timeout}, "timeout", "how long one part may take (beside those seconds)")
	return c
}

// durationFlag is a flag in the notation of resources: 30s, 5m, 7d.
type durationFlag struct{ d *model.Duration }

func (f *durationFlag) String() string { return f.d.String() }
func (f *durationFlag) Type() string   { return "duration" }
func (f *durationFlag) Set(text string) (err error) {
	*f.d, err = model.ParseDuration(text)
	return err
}

func (a *app) bundle(ctx context.Context, b bundling) error {
	if b.seconds < 1 || b.seconds > 60 {
		return model.Errorf(model.Invalid, "--seconds %d: want 1 to 60", b.seconds)
	}
	var err error
	if b.where, err = a.context(); err != nil {
		return err
	}
	b.api, b.apiErr = a.connect()
	b.admin = adminURL(cmp.Or(b.admin, b.where.Admin, defaultAdmin))
	b.data = cmp.Or(b.data, b.where.Data, dataFolder())
	now := a.Now()
	folder := "muster-bundle-" + now.UTC().Format("20060102-150405")
	if b.out == "" {
		b.out = folder + ".tar.gz"
	}
	file, err := os.OpenFile(b.out, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return model.Errorf(model.Invalid, "bundle cannot be written: %w", err).WithHint("name another file: --out FILE")
	}
	fmt.Fprintf(a.Stderr, "looking at %s for %d s …\n", b.admin, b.seconds)
	parts := b.parts()
	missing, err := bundle.Write(ctx, file, folder, "Muster's debug bundle, of the server at "+b.admin, now, parts)
	if err = errors.Join(err, file.Close()); err != nil || ctx.Err() != nil {
		_ = os.Remove(b.out)
		return errors.Join(err, ctx.Err())
	}
	for _, m := range missing {
		fmt.Fprintf(a.Stderr, "  %s %s: %s\n", a.paint(yellow, "missing"), m.Name, clean(m.Why, false))
	}
	if len(missing) == len(parts) {
		_ = os.Remove(b.out)
		return model.Errorf(model.Unavailable, "nothing could be had of the server at %s", b.admin).
			WithHint("name the admin listener and the data folder: --admin HOST:PORT --data DIR")
	}
	fmt.Fprintf(a.Stdout, "%s: %d of %s\n", b.out, len(parts)-len(missing), model.CountNoun(len(parts), "part"))
	return nil
}

// parts are all files of a bundle: from the admin listener, the API, this machine.
func (b *bundling) parts() []bundle.Part {
	window := strconv.Itoa(b.seconds)
	watched := b.timeout + time.Duration(b.seconds)*time.Second
	admin := func(name, what, path string, timeout time.Duration) bundle.Part {
		return bundle.Part{Name: name, What: what, Timeout: timeout, Get: func(ctx context.Context) ([]byte, error) {
			return fetch(ctx, b.admin+path)
		}}
	}
	api := func(name, what string, ask func(context.Context) (any, error)) bundle.Part {
		return bundle.Part{Name: name, What: what, Timeout: b.timeout, Get: func(ctx context.Context) ([]byte, error) {
			if b.apiErr != nil {
				return nil, b.apiErr
			}
			v, err := ask(ctx)
			if err != nil {
				return nil, err
			}
			return json.MarshalIndent(v, "", "  ")
		}}
	}
	here := func(name, what string, get func(context.Context) ([]byte, error)) bundle.Part {
		return bundle.Part{Name: name, What: what, Timeout: b.timeout, Get: get}
	}
	return []bundle.Part{
		admin("version.json", "the server's build", "/debug/version", b.timeout),
		admin("config.json", "settings in force, without secrets", "/debug/config", b.timeout),
		admin("readyz.txt", "whether it is ready, and why not", "/readyz", b.timeout),
		admin("queues.json", "every bounded queue", "/queues", b.timeout),
		admin("metrics.txt", "all metrics", "/metrics", b.timeout),
		admin("log.txt", "the last of the log, from memory", "/debug/log", b.timeout),
		admin("goroutines.txt", "every goroutine with its stack", "/debug/pprof/goroutine?debug=2", b.timeout),
		admin("cpu.pprof", "where CPU time goes", "/debug/pprof/profile?seconds="+window, watched),
		admin("heap.pprof", "what lives in memory", "/debug/pprof/heap", b.timeout),
		admin("allocs.pprof", "what was ever allocated", "/debug/pprof/allocs", b.timeout),
		admin("goroutine.pprof", "goroutines, as a profile", "/debug/pprof/goroutine", b.timeout),
		admin("mutex.pprof", "who waits for locks", "/debug/pprof/mutex?seconds="+window, watched),
		admin("block.pprof", "who waits for anything", "/debug/pprof/block?seconds="+window, watched),
		api("status.json", "what muster status says", func(ctx context.Context) (any, error) { return b.api.Status(ctx, "") }),
		{Name: "doctor.txt", What: "what muster doctor finds on this machine", Timeout: b.timeout + 10*time.Second, Get: b.doctor},
		here("logfile.txt", "the end of the log file", b.logFile),
		here("process.txt", "what the kernel says of the process", b.process),
		here("client.txt", "the build that packed this", func(context.Context) ([]byte, error) {
			return fmt.Appendf(nil, "%s %s/%s\n", version.Get(), runtime.GOOS, runtime.GOARCH), nil
		}),
	}
}

// fetch is one GET. An answer that says no is an error with its text, and kept: a
// readyz that says why not is worth having.
func fetch(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	// No proxy: this is a listener of this machine.
	transport := &http.Transport{DisableKeepAlives: true}
	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		var op interface{ Unwrap() error }
		if errors.As(err, &op) && ctx.Err() == nil {
			err = op.Unwrap() // without the address, which stands above
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

func (b *bundling) doctor(ctx context.Context) ([]byte, error) {
	p := doctor.Patient{Data: b.data, Budget: 4 << 30, Agents: 1000, URL: b.where.Server, CA: []byte(b.where.CA)}
	asRunning(ctx, b.admin, &p, func(setting string) bool { return setting == "data" })
	findings := doctor.Examine(ctx, p)
	var out bytes.Buffer
	err := (&app{Env: &Env{Stdout: &out}}).printFindings(findings)
	return out.Bytes(), err
}

// logFile is the end of the log file of `muster up`, for a server that does not answer.
func (b *bundling) logFile(context.Context) ([]byte, error) {
	const most = 1 << 20
	f, err := os.Open(filepath.Join(b.data, "muster.log"))
	if err != nil {
		return nil, fmt.Errorf("%w; a service's: journalctl -u muster", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > most {
		if _, err := f.Seek(-most, io.SeekEnd); err != nil {
			return nil, err
		}
	}
	return io.ReadAll(io.LimitReader(f, most))
}

// process reads what /proc says of the process that holds the data folder.
func (b *bundling) process(context.Context) ([]byte, error) {
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

// adminURL takes HOST:PORT or a URL.
func adminURL(text string) string {
	if strings.Contains(text, "://") {
		return strings.TrimRight(text, "/")
	}
	return "http://" + text
}
