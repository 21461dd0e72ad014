package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// Probe describes one built-in check with its name, arguments and function.
type Probe struct {
	Name    string
	Summary string
	Args    []Arg
	run     func(ctx context.Context, env *Env, a argValues, r *report) error // an error makes the result UNKNOWN
}

// Env describes the machine that a probe checks, with root folder, clock, network and the agent's counters.
// Tests replace its fields. Zero fields have sensible defaults.
type Env struct {
	Root          string                                 // folder before /proc, /sys, /run and /boot in paths: for tests
	Now           func() time.Time                       // default time.Now
	ServerOffset  func() (offset time.Duration, ok bool) // this machine's clock minus the Muster server's clock
	Dial          func(ctx context.Context, network, addr string) (net.Conn, error)
	AgentCounters func() AgentCounters // returns the counters of the agent; nil: no agent runs
	Memory        *SavedState          // state of one check between runs; nil: the probe keeps no state
	Scraped       []model.Value        // the probe prometheus sets it: series of a page, and those about the scrape
}

// now returns the current time, or the time of Env.Now in tests
func (e *Env) now() time.Time {
	if e.Now != nil {
		return e.Now()
	}
	return time.Now()
}

// pathBelowRoot returns the path of a system file below the root folder of Env.
func (e *Env) pathBelowRoot(p string) string { return filepath.Join(e.Root, p) }

// read reads a system file below the root folder of Env.
func (e *Env) read(p string) ([]byte, error) { return os.ReadFile(e.pathBelowRoot(p)) }

// dial connects to a network address with Env.Dial, or with a net.Dialer if Env.Dial is nil.
func (e *Env) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if e.Dial != nil {
		return e.Dial(ctx, network, addr)
	}
	var d net.Dialer
	return d.DialContext(ctx, network, addr)
}

// Find returns the probe with the given name. The error for an unknown name suggests the nearest name.
func Find(name string) (Probe, error) {
	var names []string
	for _, p := range All() {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	err := model.Errorf(model.NotFound, "unknown probe %q", name)
	if near := model.Nearest(name, names); near != "" {
		return Probe{}, err.WithHint("did you mean %s?", near)
	}
	return Probe{}, err.WithHint("probes: %v", names)
}

// Lint checks the name and the arguments of a probe, and returns the errors. Values with a variable are known on the
// node only, and are not checked.
func Lint(name string, values map[string]string) []error {
	p, err := Find(name)
	if err != nil {
		return []error{err}
	}
	_, errs := p.parseArguments(values, true)
	return errs
}

// Run runs a probe with its arguments and returns status and output. Any fault of its name, arguments or run is
// UNKNOWN with the reason.
func Run(ctx context.Context, env *Env, name string, values map[string]string) (model.Status, []byte) {
	now := *env
	defer func() { env.Scraped = now.Scraped }()
	now.Memory = cmp.Or(env.Memory, &SavedState{})
	r := &report{name: name}
	var a argValues
	p, err := Find(name)
	errs := []error{err}
	if err == nil {
		a, errs = p.parseArguments(values, false)
	}
	if len(errs) == 0 {
		errs = append(errs, p.run(ctx, &now, a, r))
		if ctx.Err() == context.DeadlineExceeded && r.status != model.Critical {
			errs = append(errs, errors.New("timed out"))
		}
	}
	for _, err := range errs {
		if err != nil {
			r.addFinding(model.Unknown, "%v", err)
		}
	}
	return r.statusAndOutput()
}

// unsupportedError adds to an error that the probe does not support the operating system.
func unsupportedError(err error) error {
	return fmt.Errorf("the probe is not possible on %s: %w", runtime.GOOS, err)
}

// matchesAny reports whether a name matches one of the glob patterns.
func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { ok, _ := path.Match(p, name); return ok })
}

// countWithNoun formats a count with its noun in singular or plural.
func countWithNoun(n int, one, many string) string {
	if n == 1 {
		return fmt.Sprintf("1 %s", one)
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Type is the type of a probe's argument, such as a duration, size or list.
type Type string

const (
	Text     Type = "text"
	List     Type = "list"     // a, b, c
	Bool     Type = "bool"     // true or false
	Number   Type = "number"   // 2.5
	Duration Type = "duration" // 500ms, 5m, 21d
	Size     Type = "size"     // 64KiB
	Free     Type = "free"     // 10% or 5GiB
	Range    Type = "range"    // Nagios threshold: 10, 10:, 10:20, @10:20
	Regexp   Type = "regexp"   // RE2
)

// Arg describes one argument of a probe by name, type, default and help.
type Arg struct {
	Name    string
	Type    Type
	Default string // empty: none
	Unit    string // for people
	Help    string
	Must    bool // a check must give the argument
}

// freeThreshold is the minimum amount that must stay free, as a percentage or in bytes
type freeThreshold struct {
	percent float64
	bytes   int64 // if percent is zero
}

// exceededBy reports whether a free amount is less than the threshold requires.
func (f freeThreshold) exceededBy(avail, total float64) bool {
	if f.percent > 0 {
		return total > 0 && avail/total*100 < f.percent
	}
	return avail < float64(f.bytes)
}

// usedRange converts the threshold to the allowed range of the used amount, for performance data.
func (f freeThreshold) usedRange(total float64) *model.Range {
	left := float64(f.bytes)
	if f.percent > 0 {
		left = total * f.percent / 100
	}
	return &model.Range{End: max(0, float64(int64(total-left)))}
}

// argValues has the values of a probe's arguments, by name. An argument without a value is absent.
type argValues map[string]any

// text returns the value of an argument that is a text.
func (a argValues) text(name string) string { v, _ := a[name].(string); return v }

// list returns the value of an argument that is a list.
func (a argValues) list(name string) []string { v, _ := a[name].([]string); return v }

// bool returns the value of a yes-or-no argument.
func (a argValues) bool(name string) bool { v, _ := a[name].(bool); return v }

// size returns the value of an argument in bytes. ok is false if the argument has no value.
func (a argValues) size(name string) (int64, bool) { v, ok := a[name].(int64); return v, ok }

// regexp returns the value of an argument that is a regular expression. It returns nil for an argument without a
// value.
func (a argValues) regexp(name string) *regexp.Regexp { v, _ := a[name].(*regexp.Regexp); return v }

// freeThresholdsOf returns the warning and critical thresholds for a minimum free amount, such as 10% or 5GiB.
func (a argValues) freeThresholdsOf(warn, crit string) (l freeThresholds) {
	l.warn, _ = a[warn].(freeThreshold)
	l.crit, _ = a[crit].(freeThreshold)
	return l
}

// thresholdsOf returns the warning and critical thresholds of a measured value. A Range counts as it is; bound makes
// a range of a Number or of a Duration in seconds.
func (a argValues) thresholdsOf(warn, crit string, bound func(float64) *model.Range) thresholds {
	level := func(name string) *model.Range {
		switch v := a[name].(type) {
		case model.Range:
			return &v
		case float64:
			return bound(v)
		case time.Duration:
			return bound(v.Seconds())
		}
		return nil
	}
	return thresholds{level(warn), level(crit)}
}

// parseArguments parses the arguments of a probe, and sets defaults for missing arguments. With lint, it skips values
// that contain a variable.
func (p Probe) parseArguments(values map[string]string, lint bool) (argValues, []error) {
	a := argValues{}
	var errs []error
	known := make([]string, 0, len(p.Args))
	for _, arg := range p.Args {
		known = append(known, arg.Name)
		text := values[arg.Name]
		if lint && strings.Contains(text, "{{") {
			continue
		}
		if text == "" {
			if arg.Must {
				errs = append(errs, fmt.Errorf("probe %s needs the argument %s: %s", p.Name, arg.Name, arg.Help))
			}
			text = arg.Default
		}
		if text == "" {
			continue
		}
		v, err := arg.Type.parseValue(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", arg.Name, err))
			continue
		}
		a[arg.Name] = v
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if slices.Contains(known, name) {
			continue
		}
		hint := "it has " + strings.Join(known, ", ")
		if near := model.Nearest(name, known); near != "" {
			hint = "did you mean " + near + "?"
		}
		errs = append(errs, fmt.Errorf("probe %s has no argument %q; %s", p.Name, name, hint))
	}
	return a, errs
}

// parseValue parses the text of an argument to a value of the argument's type.
func (t Type) parseValue(text string) (any, error) {
	switch t {
	case List:
		list := strings.Split(text, ",")
		for i := range list {
			list[i] = strings.TrimSpace(list[i])
		}
		return slices.DeleteFunc(list, func(s string) bool { return s == "" }), nil
	case Bool:
		yes := text == "true" || text == "yes"
		if !yes && text != "false" && text != "no" {
			return nil, fmt.Errorf("invalid value %q: expected true or false", text)
		}
		return yes, nil
	case Number:
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || v != v {
			return nil, fmt.Errorf("invalid value %q: expected a number", text)
		}
		return v, nil
	case Duration:
		d, err := model.ParseDuration(text)
		return time.Duration(d), err
	case Size:
		s, err := model.ParseSize(text)
		return int64(s), err
	case Free:
		if number, ok := strings.CutSuffix(text, "%"); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
			if err != nil || !(v >= 0 && v <= 100) {
				return nil, fmt.Errorf("invalid percentage %q: expected 0%% to 100%%", text)
			}
			return freeThreshold{percent: v}, nil
		}
		s, err := model.ParseSize(text)
		if err != nil {
			return nil, fmt.Errorf("invalid value %q: expected the amount that must stay free, such as 10%% or 5GiB", text)
		}
		return freeThreshold{bytes: int64(s)}, nil
	case Range:
		return model.ParseRange(text)
	case Regexp:
		re, err := regexp.Compile(text)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", text, err)
		}
		return re, nil
	}
	return text, nil
}
