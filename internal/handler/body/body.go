// Package body makes the body of a webhook by a template, and keeps texts within bounds. It imports no service, so that the
// command line can check a template without a server.
package body

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/template"
	"text/template/parse"
	"unicode/utf8"

	"github.com/muster-fleet/muster/internal/model"
)

// Bounds of a template and of its output, in bytes.
const (
	maxTemplate = 64 << 10
	maxRendered = 1 << 20
)

// Check returns the error of a webhook's body template.
func Check(text string) error {
	_, err := parseTemplate(text)
	return err
}

// parseTemplate parses a template and refuses those that may never end: templates that call templates, and loops over
// numbers. The size of the notification bounds all other loops.
func parseTemplate(text string) (*template.Template, error) {
	if len(text) > maxTemplate {
		return nil, model.Errorf(model.Invalid, "%d bytes, at most %d", len(text), maxTemplate)
	}
	t, err := template.New("template").Funcs(template.FuncMap{
		"json": func(v any) (string, error) { data, err := json.Marshal(v); return string(data), err },
		"line": func(v any) string { return Line(fmt.Sprint(v)) },
		"cut":  func(n int, v any) string { return Cut(fmt.Sprint(v), max(n, len(Mark))) },
	}).Option("missingkey=zero").Parse(text)
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
	case *parse.TemplateNode:
		return errors.New("template is not supported")
	case *parse.RangeNode:
		if loops++; loops > maxLoops {
			return fmt.Errorf("it has more than %d nested loops", maxLoops)
		}
		if !rangesOverField(n.Pipe) {
			return fmt.Errorf("range %s: a loop needs a field, such as .labels", n.Pipe)
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

func rangesOverField(pipe *parse.PipeNode) bool {
	if len(pipe.Cmds) != 1 || len(pipe.Cmds[0].Args) != 1 {
		return false
	}
	_, ok := pipe.Cmds[0].Args[0].(*parse.FieldNode)
	return ok
}

// Render fills a template with the fields of a notification.
func Render(text string, payload []byte) ([]byte, error) {
	t, err := parseTemplate(text)
	if err != nil {
		return nil, fmt.Errorf("template: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(payload))
	d.UseNumber() // keeps numbers as text, so that a template cannot loop over a number
	fields := map[string]any{}
	if err := d.Decode(&fields); err != nil {
		return nil, fmt.Errorf("read notification: %w", err)
	}
	out := &boundedBuffer{limit: maxRendered}
	if err := t.Execute(out, fields); err != nil {
		return nil, fmt.Errorf("template: %w", err)
	}
	// The text of a missing field is empty.
	return bytes.ReplaceAll(out.Bytes(), []byte("<no value>"), nil), nil
}

type boundedBuffer struct {
	bytes.Buffer
	limit int
}

func (b *boundedBuffer) Write(p []byte) (int, error) {
	if b.Len()+len(p) > b.limit {
		return 0, fmt.Errorf("its output has more than %d bytes", b.limit)
	}
	return b.Buffer.Write(p)
}

func (b *boundedBuffer) WriteString(s string) (int, error) { return b.Write([]byte(s)) }

// Mark ends a text that was cut.
const Mark = "… (cut)"

// Cut returns a text in at most n bytes, with Mark at its end if it was longer.
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

// Line returns a text as one line, so that it cannot begin another header.
func Line(s string) string { return strings.TrimSpace(strings.ReplaceAll(Clean(s), "\n", " ")) }
