package model

import "strings"

// shellQuote is the way to quote a value at its place in a shell line, so that the shell takes it as text.
type shellQuote uint8

const (
	quoteNone   shellQuote = iota // not for a shell
	quoteBare                     // outside quotes: the value brings its own
	quoteSingle                   // between '…'
	quoteDouble                   // between "…"
)

func (q shellQuote) write(b *strings.Builder, value string) {
	switch q {
	case quoteNone:
		b.WriteString(value)
	case quoteBare:
		b.WriteByte('\'')
		quoteSingle.write(b, value)
		b.WriteByte('\'')
	case quoteSingle:
		for {
			before, after, found := strings.Cut(value, "'")
			b.WriteString(before)
			if !found {
				return
			}
			b.WriteString(`'\''`)
			value = after
		}
	case quoteDouble:
		for i := range len(value) {
			if strings.IndexByte("$`\"\\", value[i]) >= 0 {
				b.WriteByte('\\')
			}
			b.WriteByte(value[i])
		}
	}
}

// shellScan follows the quoting of a POSIX shell line up to a variable. It knows
// plain words, '…', "…", backslashes, comments and plain $(…) without quotes or
// brackets in it; as soon as it meets something else (here documents, backquotes,
// nested substitution, $'…') it refuses every variable that follows instead of
// guessing, because a wrong guess would let a value run as code.
type shellScan struct {
	on      bool
	in      byte   // 0 bare, '\'' single, '"' double, '#' comment
	escaped bool   // a backslash stands just before
	last    uint32 // the four bytes before, the nearest lowest
	before  uint32 // last, as it was at a backslash
	subst   bool   // inside $(…)
	unclear string // the construct that the scan does not follow
}

func (s *shellScan) advance(text string) {
	if !s.on {
		return
	}
	for i := range len(text) {
		c := text[i]
		if s.unclear == "" {
			s.step(c)
		}
	}
}

func (s *shellScan) prev() byte { return byte(s.last) }

func (s *shellScan) step(c byte) {
	if s.escaped {
		s.escaped = false
		s.last = 'x'
		if c == '\n' { // a continued line: both bytes are gone
			s.last = s.before
		}
		return
	}
	defer func() { s.last = s.last<<8 | uint32(c) }()
	switch {
	case s.in == '\'':
		if c == '\'' {
			s.in = 0
		}
		return
	case s.in == '#':
		if c == '\n' {
			s.in = 0
		}
		return
	case s.subst && strings.IndexByte("'\"#(\\", c) >= 0:
		s.unclear = "$(…) with quotes or brackets inside"
	case s.subst && c == 'e' && s.last&0xffffff == 'c'<<16|'a'<<8|'s':
		s.unclear = "$(case …)" // its ) do not end the substitution
	case s.subst && c == ')':
		s.subst = false
	case c == '\\':
		s.escaped, s.before = true, s.last
	case c == '`':
		s.unclear = "backquotes"
	case c == '(' && s.prev() == '$':
		s.subst = true
	case c == '{' && s.prev() == '$':
		s.unclear = "${…}"
	case c == '[' && s.prev() == '$':
		s.unclear = "$[…]" // bash: arithmetic, in which quotes mean nothing
	case s.in == '"':
		if c == '"' {
			s.in = 0
		}
	case (c == '\'' || c == '"') && s.prev() == '$':
		s.unclear = "$'…'"
	case c == '\'' || c == '"':
		s.in = c
	case c == '<' && s.prev() == '<':
		s.unclear = "a here document"
	case c == '(' && s.prev() == '(':
		s.unclear = "((…))" // bash: arithmetic, which runs commands within a[…]
	case (c == ' ' || c == '\t' || c == '\n') && s.last&0xffff == '['<<8|'[': // not [[:digit:]]
		s.unclear = "[[…]]" // bash: -eq and its like are arithmetic too
	case c == '#' && (s.prev() == 0 || strings.IndexByte(" \t\n;&|()<>", s.prev()) >= 0):
		s.in = '#'
	}
}

// variable returns how to quote a value at this place.
func (s *shellScan) variable(column int) (shellQuote, error) {
	if !s.on {
		return quoteNone, nil
	}
	defer func() { s.last = 'x' }() // the value is part of a word
	fail := func(reason string) (shellQuote, error) {
		return 0, &TemplateError{column, reason + "; put the line into a script and pass the variable as an argument, or write the command as a list"}
	}
	switch {
	case s.unclear != "":
		return fail("a variable cannot be quoted safely after " + s.unclear)
	case s.subst:
		return fail("a variable cannot be quoted safely inside $(…)")
	case s.escaped:
		return fail("a variable cannot follow a backslash")
	case s.prev() == '$' && s.in != '\'':
		return fail("a variable cannot follow $")
	case s.in == '#':
		return fail("a variable cannot stand in a comment")
	case s.in == '\'':
		return quoteSingle, nil
	case s.in == '"':
		return quoteDouble, nil
	}
	return quoteBare, nil
}
