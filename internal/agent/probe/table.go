package probe

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// Probe is one built-in check.
type Probe struct {
	Name    string
	Summary string
	Args    []Arg
	run     func(ctx context.Context, env *Env, a args, r *report)
}

// Env is the surroundings of a probe. Zero fields have sensible defaults.
type Env struct {
	Root         string                                 // before /proc, /sys, /run, /boot: for tests
	Now          func() time.Time                       // default time.Now
	ServerOffset func() (offset time.Duration, ok bool) // this clock less the Muster server's
	Dial         func(ctx context.Context, network, addr string) (net.Conn, error)
	Self         func() Self // the agent; nil: none runs
	Memory       *Memory     // of one check; nil: nothing is remembered
}

func (e *Env) now() time.Time {
	if e.Now != nil {
		return e.Now()
	}
	return time.Now()
}

func (e *Env) path(p string) string { return filepath.Join(e.Root, p) }

func (e *Env) read(p string) ([]byte, error) { return os.ReadFile(e.path(p)) }

func (e *Env) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if e.Dial != nil {
		return e.Dial(ctx, network, addr)
	}
	var d net.Dialer
	return d.DialContext(ctx, network, addr)
}

// All lists the probes by name.
func All() []Probe {
	return []Probe{agentProbe(), certProbe(), clockProbe(), diskProbe(), fileProbe(), httpProbe(), loadProbe(),
		memoryProbe(), processesProbe(), rebootProbe(), swapProbe(), systemdProbe(), tcpProbe()}
}

// Names lists the names of all probes.
func Names() []string {
	var names []string
	for _, p := range All() {
		names = append(names, p.Name)
	}
	return names
}

// Find returns a probe by name; the error suggests the nearest.
func Find(name string) (Probe, error) {
	for _, p := range All() {
		if p.Name == name {
			return p, nil
		}
	}
	err := model.Errorf(model.NotFound, "there is no probe %q", name)
	if near := model.Nearest(name, Names()); near != "" {
		return Probe{}, err.WithHint("do you mean %s?", near)
	}
	return Probe{}, err.WithHint("probes: %v", Names())
}

// Lint returns the faults of a probe's name and arguments. Values with a variable are known on the node
// only, and are not checked.
func Lint(name string, values map[string]string) []error {
	p, err := Find(name)
	if err != nil {
		return []error{err}
	}
	_, errs := p.parse(values, true)
	return errs
}

// Run runs a probe. Whatever is wrong becomes UNKNOWN with the reason.
func Run(ctx context.Context, env *Env, name string, values map[string]string) (model.Status, []byte) {
	r := &report{}
	p, err := Find(name)
	if err != nil {
		r.add(model.Unknown, "%v", err)
		r.name = name
		return r.text()
	}
	r.name = p.Name
	a, errs := p.parse(values, false)
	for _, err := range errs {
		r.add(model.Unknown, "%v", err)
	}
	if len(errs) == 0 {
		p.run(ctx, env, a, r)
		if ctx.Err() == context.DeadlineExceeded && r.status != model.Critical {
			r.add(model.Unknown, "timed out")
		}
	}
	return r.text()
}

// addUnsupported adds the finding that the probe does not support this system.
func addUnsupported(r *report, system string, err error) {
	r.add(model.Unknown, "not possible on %s: %v", system, err)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return fmt.Sprintf("1 %s", one)
	}
	return fmt.Sprintf("%d %s", n, many)
}
