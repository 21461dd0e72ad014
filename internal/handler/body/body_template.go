// Package body makes the body of a webhook by a template, and keeps texts within bounds. It imports no service, so that the
// command line can check a template without a server.
package body

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/template"
	"text/template/parse"
	"time"
	"unicode/utf8"

	"github.com/muster-fleet/muster/internal/model"
)

// Bounds of a template.
const (
	maxTemplate  = 64 << 10    // bytes of its text
	maxRendered  = 1 << 20     // bytes of its output
	maxFormatted = 4 << 20     // bytes of all values that its functions turn into text
	maxTime      = time.Second // of one rendering
)

// CheckTemplate parses a webhook's body template, and returns an error if the template is invalid.
func CheckTemplate(text string) error {
	_, err := parseTemplate(text, new(outputLimit))
	return err
}

// outputLimit counts the text that a template's functions produce, and ends the rendering above a limit.
type outputLimit struct{ used int }

// countText adds the length of values as text to the template's count of produced text. It returns an error
// when the template has used more than maxFormatted bytes.
func (b *outputLimit) countText(values ...any) error {
	for _, v := range values {
		if b.used <= maxFormatted {
			b.used += len(fmt.Sprint(v))
		}
	}
	if b.used > maxFormatted {
		return fmt.Errorf("the template functions produce more than %d bytes of text", maxFormatted)
	}
	return nil
}

// functions returns the functions that templates may call. Each counts its text against the size limit.
func (b *outputLimit) functions() template.FuncMap {
	charged := func(format func(values ...any) string) func(...any) (string, error) {
		return func(values ...any) (string, error) {
			if err := b.countText(values...); err != nil {
				return "", err
			}
			return format(values...), nil
		}
	}
	return template.FuncMap{
		"print": charged(fmt.Sprint), "println": charged(fmt.Sprintln), "printf": b.printf,
		"html": charged(template.HTMLEscaper), "js": charged(template.JSEscaper), "urlquery": charged(template.URLQueryEscaper),
		"json": func(v any) (string, error) {
			data, err := json.Marshal(v)
			return string(data), errors.Join(err, b.countText(v))
		},
		"line": func(v any) (string, error) { return JoinLines(fmt.Sprint(v)), b.countText(v) },
		"cut": func(n int, v any) (string, error) {
			text := Cut(fmt.Sprint(v), max(n, len(Mark)))
			return text, b.countText(text)
		},
	}
}

// printf formats values as fmt.Sprintf does, and counts the resulting text towards the template's limit. Each
// verb charges its text, because a short format can name one value, or a width, many times.
func (b *outputLimit) printf(format string, values ...any) (string, error) {
	for i := range values {
		values[i] = limitedArgument{values[i], b}
	}
	text := fmt.Sprintf(format, values...)
	return text, b.countText(text)
}

// limitedArgument wraps a value in a template's printf, so that its text counts towards the size limit. It
// writes nothing when the limit is used up.
type limitedArgument struct {
	value any
	limit *outputLimit
}

// Format prints the wrapped value as fmt does, and counts the text towards the size limit.
func (o limitedArgument) Format(s fmt.State, verb rune) {
	if o.limit.used <= maxFormatted {
		n, _ := fmt.Fprintf(s, fmt.FormatString(s, verb), o.value) // writing to a State returns no error
		o.limit.used += n
	}
}

// parseTemplate parses a webhook's body template, and refuses loops that may never end. Such templates call
// templates or loop over numbers. Its functions work within the limit.
func parseTemplate(text string, b *outputLimit) (*template.Template, error) {
	if len(text) > maxTemplate {
		return nil, model.Errorf(model.Invalid, "the template has %d bytes, the limit is %d", len(text), maxTemplate)
	}
	t, err := template.New("template").Funcs(b.functions()).Option("missingkey=zero").Parse(text)
	if err != nil {
		return nil, err
	}
	if len(t.Templates()) > 1 {
		return nil, errors.New("define and block are not supported")
	}
	return t, checkLoops(t.Root, 0)
}

// maxLoops is the most loops that a template may nest.
const maxLoops = 2

// checkLoops returns an error for template loops over a number, or nested too deeply. It puts an empty text before
// each node: its write ends a rendering that takes longer than maxTime (boundedBuffer.Write).
func checkLoops(node parse.Node, loops int) error {
	var within []parse.Node
	lists := func(all ...*parse.ListNode) {
		for _, list := range all {
			if list != nil {
				within = append(within, list.Nodes...)
			}
		}
	}
	switch n := node.(type) {
	case *parse.ListNode:
		lists(n)
		n.Nodes = nil
		for _, inner := range within {
			n.Nodes = append(n.Nodes, &parse.TextNode{NodeType: parse.NodeText, Pos: inner.Position()}, inner)
		}
	case *parse.TemplateNode:
		return errors.New("template is not supported")
	case *parse.RangeNode:
		if loops++; loops > maxLoops {
			return fmt.Errorf("more than %d nested loops", maxLoops)
		}
		if !rangesOverField(n.Pipe) {
			return fmt.Errorf("range %s: a loop must iterate over a field, such as .labels", n.Pipe)
		}
		lists(n.List, n.ElseList)
	case *parse.IfNode:
		lists(n.List, n.ElseList)
	case *parse.WithNode:
		lists(n.List, n.ElseList)
	}
	for _, inner := range within {
		if err := checkLoops(inner, loops); err != nil {
			return err
		}
	}
	return nil
}

// rangesOverField reports whether a template's loop iterates over a field of the notification.
func rangesOverField(pipe *parse.PipeNode) bool {
	if len(pipe.Cmds) != 1 || len(pipe.Cmds[0].Args) != 1 {
		return false
	}
	_, ok := pipe.Cmds[0].Args[0].(*parse.FieldNode)
	return ok
}

// Render returns the output of a webhook's body template for a notification, computed within a time limit.
func Render(ctx context.Context, text string, payload []byte) ([]byte, error) {
	t, err := parseTemplate(text, new(outputLimit))
	if err != nil {
		return nil, fmt.Errorf("render the body template: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(payload))
	d.UseNumber() // keeps numbers as text, so that a template cannot loop over a number
	fields := map[string]any{}
	if err := d.Decode(&fields); err != nil {
		return nil, fmt.Errorf("decode the notification: %w", err)
	}
	limited, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	out := &boundedBuffer{ctx: limited, limit: maxRendered}
	if err := t.Execute(out, fields); err != nil {
		return nil, fmt.Errorf("render the body template: %w", err)
	}
	// The text of a missing field is empty.
	return bytes.ReplaceAll(out.Bytes(), []byte("<no value>"), nil), nil
}

// boundedBuffer collects the output of a webhook's body template, with limits on size and time.
type boundedBuffer struct {
	bytes.Buffer
	ctx   context.Context
	limit int
}

// Write appends output to the buffer, and fails above the limits on size and time
func (b *boundedBuffer) Write(p []byte) (int, error) {
	if b.ctx.Err() != nil {
		return 0, fmt.Errorf("the template takes longer than %s to render", maxTime)
	}
	if b.Len()+len(p) > b.limit {
		return 0, fmt.Errorf("the output of the template has more than %d bytes", b.limit)
	}
	return b.Buffer.Write(p)
}

// WriteString appends a text to the buffer, within the limits of Write.
func (b *boundedBuffer) WriteString(s string) (int, error) { return b.Write([]byte(s)) }

// Mark ends a text that was cut.
const Mark = "… (cut)"

// Cut shortens a text to at most n bytes, and adds a remark about the cut.
func Cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	end := max(0, n-len(Mark))
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + Mark
}

// Clean returns a text as valid UTF-8 without control characters other than newlines and tabs.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && (r < ' ' && r != '\t' || r >= 0x7f && r < 0xa0) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// JoinLines joins the lines of a text to one line. So the text cannot start another mail header.
func JoinLines(s string) string { return strings.TrimSpace(strings.ReplaceAll(Clean(s), "\n", " ")) }
