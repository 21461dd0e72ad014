package prep

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dlclark/regexp2/v2"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/model"
)

// matchLimit bounds one match of a regular expression that backtracks.
const matchLimit = 100 * time.Millisecond

// pattern is a compiled regular expression that matches like PCRE, as in Zabbix. RE2 matches it in linear time,
// where it can; look-around, back-references and a $ in front of a final line feed need the engine that
// backtracks.
type pattern struct {
	linear       *regexp.Regexp  // nil: RE2 does not know the syntax
	steps        int             // instructions of linear
	backtracking *regexp2.Regexp // nil: not needed
	lineEnd      bool            // $ matches also in front of a line feed at the end, which RE2 does not do

	slow    atomic.Int32 // matches in a row that reached matchLimit
	skipped atomic.Int32 // matches that fail at once, because several before reached matchLimit
}

const (
	maxSlowMatches = 4    // in a row, before matches are skipped
	skippedMatches = 1000 // so many, then the next one is tried
)

// errSlowMatch is the error of a regular expression that is too slow.
var errSlowMatch = fmt.Errorf("the regular expression takes longer than %v or too much memory", matchLimit)

// maxPatternWork bounds the length of a text times the instructions of a linear pattern. One match takes at most
// seconds.
const maxPatternWork = 1 << 30

// errPatternWork is the error of a text that is too long for the pattern.
var errPatternWork = errors.New("the value is too long for a regular expression of this size")

// matchBacktracking matches by the slow backtracking engine, with one more attempt after a time-out. The
// machine may have paused. A pattern that reaches them several times in a row is skipped for many values.
func (p *pattern) matchBacktracking(match func() error) error {
	if p.skipped.Load() > 0 {
		p.skipped.Add(-1)
		return errSlowMatch
	}
	for range 2 {
		if match() == nil {
			p.slow.Store(0)
			return nil
		}
		if p.slow.Add(1) >= maxSlowMatches {
			p.skipped.Store(skippedMatches)
			break
		}
	}
	return errSlowMatch
}

// anchoring says where ^ and $ of a regular expression match, as PCRE's flag PCRE_MULTILINE does.
type anchoring uint8

// Places where ^ and $ match. Zabbix has matchText for the steps that fill a template, and matchLines elsewhere.
const (
	matchLines anchoring = iota // at each line
	matchText                   // at the start and the end of the text
)

// compilePattern compiles a regular expression in PCRE syntax.
func compilePattern(source string, anchors anchoring) (*pattern, error) {
	p := &pattern{}
	linear, options := source, regexp2.None
	if anchors == matchLines {
		linear, options = "(?m)"+source, regexp2.Multiline
	}
	var linearErr error
	p.linear, p.steps, linearErr = item.CompilePattern(linear)
	if errors.Is(linearErr, item.ErrPatternSize) {
		return nil, model.Errorf(model.TooLarge, "the regular expression %q: %w", model.Shorten(source), linearErr)
	}
	if linearErr == nil {
		tree, err := syntax.Parse(linear, syntax.Perl)
		p.lineEnd = err == nil && matchesLineEnd(tree)
	}
	if linearErr != nil || p.lineEnd {
		var err error
		if p.backtracking, err = regexp2.Compile(source, options); err != nil {
			p.backtracking = nil
			if linearErr != nil {
				return nil, model.Errorf(model.Invalid, "invalid regular expression %q: %w", source, err)
			}
			p.lineEnd = false
		} else {
			p.backtracking.MatchTimeout = matchLimit
		}
	}
	return p, nil
}

// matchesLineEnd reports whether a regular expression contains the line end $
func matchesLineEnd(tree *syntax.Regexp) bool {
	if tree.Op == syntax.OpEndText && tree.Flags&syntax.WasDollar != 0 {
		return true
	}
	for _, sub := range tree.Sub {
		if matchesLineEnd(sub) {
			return true
		}
	}
	return false
}

// useLinear reports whether the fast engine RE2 gives the same result as PCRE for a text. RE2 takes linear time.
func (p *pattern) useLinear(text string) bool {
	return p.linear != nil && !(p.lineEnd && strings.HasSuffix(text, "\n"))
}

// match reports whether the regular expression matches a text. It fails if that takes too long.
func (p *pattern) match(text string) (ok bool, err error) {
	if p.useLinear(text) {
		if p.steps*len(text) > maxPatternWork {
			return false, errPatternWork
		}
		return p.linear.MatchString(text), nil
	}
	err = p.matchBacktracking(func() (err error) {
		ok, err = p.backtracking.MatchString(text)
		return err
	})
	return ok, err
}

// replaceFirst fills an output template such as \1 from the first match of the regular expression. An empty
// template stands for the whole text. ok is false without a match, and without the group that \@ requires.
func (p *pattern) replaceFirst(text, template string) (out string, ok bool, err error) {
	var group func(n int) (string, bool)
	if p.useLinear(text) {
		if p.steps*len(text) > maxPatternWork {
			return "", false, errPatternWork
		}
		at := p.linear.FindStringSubmatchIndex(text)
		if at == nil {
			return "", false, nil
		}
		group = model.GroupsOf(text, at)
	} else {
		var m *regexp2.Match
		if err := p.matchBacktracking(func() (err error) {
			m, err = p.backtracking.FindStringMatch(text)
			return err
		}); err != nil || m == nil {
			return "", false, err
		}
		group = func(n int) (string, bool) {
			if g := m.GroupByNumber(n); g != nil && len(g.Captures) > 0 {
				return g.String(), true
			}
			return "", false
		}
	}
	most := maxOutputOf(text)
	if out, ok = model.FillGroups(template, text, most, group); len(out) > most {
		return "", false, errOutput
	}
	return out, ok, nil
}
