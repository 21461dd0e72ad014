package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// What a scenario may ask for at most, where neither the protocol nor the model says it.
const (
	maxAgents     = 1_000_000
	maxDependents = 1_000 // items of a value
	maxShare      = 1000  // agents on one connection
	maxSteps      = 1000
	maxWatches    = 10_000
	minOutput     = 48 // the head of an output, which tells it from others
	minInterval   = model.Duration(time.Second)
	maxTime       = model.Duration(366 * 24 * time.Hour)
)

// MaxOutput is the longest output, in bytes: a frame of the protocol has room for it, whatever
// stands beside it.
const MaxOutput = 1000 << 10

// checker finds all that is wrong with a scenario by itself.
type checker struct {
	*Scenario
	flaws   model.Flaws
	written func(field string) bool // by whoever wrote the file
}

// check finds what decoding cannot see of a scenario that no file stands for.
func (s *Scenario) check() model.Flaws { return s.checkWritten(func(string) bool { return false }) }

// checkWritten finds what decoding cannot see. Fields that were left out have no value yet; written
// says of the others that they stand there.
func (s *Scenario) checkWritten(written func(field string) bool) model.Flaws {
	v := &checker{Scenario: s, written: written}
	v.head()
	v.server()
	v.classes()
	v.proxies()
	v.phases()
	v.pace()
	v.faults()
	v.intent()
	v.operators()
	v.stream()
	v.objectives()
	return v.flaws
}

// server looks at what the run starts.
func (v *checker) server() {
	if n := v.Server.Cores; n < 0 || n > maxCores {
		v.flaw("server.cores", "leave it out for all that the machine has", "%d cores: want 1 to %d", n, maxCores)
	}
}

const maxCores = 1024

// stream validates the handler that is notified of every result.
func (v *checker) stream() {
	if v.Stream == nil {
		return
	}
	if n := v.Stream.Connections; n < 1 || n > model.MaxStreamConnections {
		v.flaw("stream.connections", "write stream: {connections: 100}, or leave stream out", "%d connections: want 1 to %d", n, model.MaxStreamConnections)
	}
}

func (v *checker) flaw(field, hint, format string, args ...any) {
	if len(v.flaws) < model.MaxFlaws {
		v.flaws = append(v.flaws, &model.Flaw{Field: model.Shorten(field), Hint: model.Shorten(hint), Text: model.Shorten(fmt.Sprintf(format, args...))})
	}
}

// absent is a flaw of something that is not there.
func (v *checker) absent(field, hint, format string, args ...any) {
	before := len(v.flaws)
	v.flaw(field, hint, format, args...)
	for _, f := range v.flaws[before:] {
		f.Absent = true
	}
}

// oneOf says what is near a word that is none of those, and which there are.
func (v *checker) oneOf(field, what, word string, words []string) bool {
	if slices.Contains(words, word) {
		return true
	}
	var each []string
	for _, w := range words {
		if !slices.Contains(each, w) { // two classes of one name are a flaw of their own
			each = append(each, w)
		}
	}
	hint := "one of " + strings.Join(each, ", ")
	switch near := model.Nearest(word, words); {
	case near != "":
		hint = "did you mean " + near + "?"
	case len(words) == 0:
		hint = ""
	}
	v.flaw(field, hint, "there is no %s %q", what, word)
	return false
}

func (v *checker) name(field, text string) {
	if err := model.NameError(text); err != nil {
		hint := ""
		if clean := model.CleanName(text); clean != "" {
			hint = "write " + clean
		}
		if text == "" {
			v.absent(field, "", "%v", err)
		} else {
			v.flaw(field, hint, "%v", err)
		}
	}
}

// nought refuses a number of nothing that somebody wrote where to leave it out means something else.
func (v *checker) nought(field, hint string, n float64, want string, args ...any) {
	if n == 0 && v.written(field) {
		v.flaw(field, hint, want+", not 0", args...)
	}
}

func (v *checker) whole(field string, n, low, high int) {
	if n < low || n > high {
		v.flaw(field, "", "want %d to %d, not %d", low, high, n)
	}
}

// between accepts zero, which means the default.
func (v *checker) between(field string, d, low, high model.Duration) {
	if d != 0 && (d < low || d > high) {
		v.flaw(field, "", "want %s to %s, not %s", low, high, d)
	}
}

func (v *checker) share(field string, x float64) bool {
	if x < 0 || x > 1 {
		v.flaw(field, "a share is between 0 and 1: write 0.05 for 5 %", "%v is no share", x)
		return false
	}
	return true
}

// shares checks a mapping of shares, whose sum is at most one.
func (v *checker) shares(field, rest string, m map[string]float64) {
	sum, fine := 0.0, true
	for _, name := range slices.Sorted(maps.Keys(m)) {
		fine = v.share(field+"."+name, m[name]) && fine
		sum += m[name]
	}
	if fine && sum > 1+1e-9 {
		v.flaw(field, rest, "the shares add up to %.4g, more than 1", sum)
	}
}

// head checks what the file says of itself.
func (v *checker) head() {
	switch v.Scenario.Scenario {
	case Version:
	case "":
		v.absent("scenario", "begin the file with scenario: "+Version, "missing")
	default:
		v.flaw("scenario", "write "+Version, "%q is not known", v.Scenario.Scenario)
	}
	if v.Name != "" {
		v.name("name", v.Name)
	}
	for _, text := range [...]struct{ field, text string }{{"title", v.Title}, {"answers", v.Answers}} {
		if len(text.text) > 500 || strings.ContainsAny(text.text, "\r\x00") {
			v.flaw(text.field, "", "want at most 500 bytes of text")
		}
	}
	names := make([]string, 0, 20)
	for _, c := range Capabilities() {
		names = append(names, c.Name)
	}
	for i, name := range v.Needs {
		v.oneOf(fmt.Sprintf("needs[%d]", i), "capability", name, names)
	}
	if v.Target != "" {
		v.oneOf("target", "target", v.Target, Targets())
	}
	if v.Scale < 0 || v.Scale > 1000 {
		v.flaw("scale", "leave it out: --scale and --quick set it", "want 0 to 1000, not %v", v.Scale)
	}
}

// class finds a class by its name.
func (s *Scenario) class(name string) *Class {
	for i := range s.Agents {
		if s.Agents[i].Name == name {
			return &s.Agents[i]
		}
	}
	return nil
}

func (v *checker) classNames() (names []string) {
	for _, c := range v.Agents {
		names = append(names, c.Name)
	}
	return names
}

// className checks a reference to a class; empty means all.
func (v *checker) className(field, name string) {
	if name != "" {
		v.oneOf(field, "class", name, v.classNames())
	}
}

const perFrame = wire.MaxSignals
