package prep

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/antchfx/xmlquery"
	"github.com/antchfx/xpath"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/model"
)

const maxXMLDepth = 256 // elements inside each other

// parseXML parses an XML document
func parseXML(text string) (*xmlquery.Node, error) {
	root, err := xmlquery.Parse(strings.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("cannot parse XML: %w", err)
	}
	depth := 0
	for n := root; n != nil; {
		if n.FirstChild != nil {
			if n, depth = n.FirstChild, depth+1; depth > maxXMLDepth {
				return nil, fmt.Errorf("cannot parse XML: more than %d levels", maxXMLDepth)
			}
			continue
		}
		for n != nil && n.NextSibling == nil {
			n, depth = n.Parent, depth-1
		}
		if n != nil {
			n = n.NextSibling
		}
	}
	return root, nil
}

// xmlPath is a compiled XPath expression that several goroutines may use at once. Its evaluation has state, so
// that each goroutine takes one from the pool.
type xmlPath struct{ pool sync.Pool }

// compileXPath compiles an XPath expression.
func compileXPath(source string) (p *xmlPath, err error) {
	compile := func() (x *xpath.Expr, err error) {
		defer func() {
			if r := recover(); r != nil { // the library panics about some expressions
				err = fmt.Errorf("%v", r)
			}
		}()
		return xpath.Compile(replaceLast(source))
	}
	x, err := compile()
	if err != nil {
		return nil, model.Errorf(model.Invalid, "invalid xpath %q: %w", source, err)
	}
	p = &xmlPath{pool: sync.Pool{New: func() any { x, _ := compile(); return x }}}
	p.pool.Put(x)
	return p, nil
}

// query evaluates the XPath expression, and returns selected nodes as XML or any other result as text.
func (p *xmlPath) query(root *xmlquery.Node) (out string, err error) {
	x, _ := p.pool.Get().(*xpath.Expr)
	defer func() {
		if r := recover(); r != nil { // the library panics about some operands
			out, err = "", fmt.Errorf("cannot evaluate xpath: %v", r)
		}
	}()
	switch result := x.Evaluate(&boundedNavigator{xmlquery.CreateXPathNavigator(root), new(int)}).(type) {
	case *xpath.NodeIterator:
		var b strings.Builder
		for result.MoveNext() {
			if b.Len() > maxOutput {
				return "", errOutput
			}
			navigator, ok := result.Current().(*boundedNavigator)
			if !ok {
				continue
			}
			if navigator.NodeType() == xpath.AttributeNode {
				writeXMLAttribute(&b, navigator.Prefix(), navigator.LocalName(), navigator.Value())
			} else {
				writeXML(&b, navigator.Current())
			}
		}
		out = b.String()
	case float64:
		if math.IsNaN(result) || math.IsInf(result, 0) {
			return "", errors.New("the number is not finite")
		}
		out = textOf(item.FromFloat(result))
	case bool:
		out = "0"
		if result {
			out = "1"
		}
	default:
		out = fmt.Sprint(result)
	}
	p.pool.Put(x)
	return out, nil
}

// writeXML writes an XML node and its descendants, formatted as libxml does.
func writeXML(b *strings.Builder, n *xmlquery.Node) {
	switch n.Type {
	case xmlquery.TextNode:
		b.WriteString(strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "\r", "&#13;").Replace(n.Data))
	case xmlquery.CharDataNode:
		b.WriteString("<![CDATA[" + n.Data + "]]>")
	case xmlquery.CommentNode:
		b.WriteString("<!--" + n.Data + "-->")
	case xmlquery.DocumentNode:
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			writeXML(b, c)
		}
	case xmlquery.ElementNode:
		name := n.Data
		if n.Prefix != "" {
			name = n.Prefix + ":" + name
		}
		b.WriteString("<" + name)
		for _, a := range n.Attr {
			writeXMLAttribute(b, a.Name.Space, a.Name.Local, a.Value)
		}
		if n.FirstChild == nil {
			b.WriteString("/>")
			return
		}
		b.WriteString(">")
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			writeXML(b, c)
		}
		b.WriteString("</" + name + ">")
	}
}

// writeXMLAttribute writes an attribute, preceded by a space
func writeXMLAttribute(b *strings.Builder, prefix, name, value string) {
	if prefix != "" {
		name = prefix + ":" + name
	}
	b.WriteString(" " + name + `="` + strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "\n", "&#10;", "\r", "&#13;", "\t", "&#9;").Replace(value) + `"`)
}

// compileXMLPath compiles the step xmlPath, which outputs the result of an XPath expression
func compileXMLPath(params []string, _ item.Type) (stepFunc, error) {
	path, err := compileXPath(params[0])
	if err != nil {
		return nil, err
	}
	return func(v item.Value, _ int64, _ *rememberedValue, _ *ParsedValue) (item.Value, error) {
		root, err := parseXML(textOf(v))
		var out string
		if err == nil {
			out, err = path.query(root)
		}
		if err != nil {
			return v, fmt.Errorf("cannot extract XML value with xpath %q: %w", params[0], err)
		}
		return item.FromText(out), nil
	}, nil
}

// compileCheckXMLError compiles the step checkXmlError, which fails if an XML document has an error text at an
// XPath. An XPath expression selects the text. Invalid XML is none.
func compileCheckXMLError(params []string, _ item.Type) (stepFunc, error) {
	path, err := compileXPath(params[0])
	if err != nil {
		return nil, err
	}
	return func(v item.Value, _ int64, _ *rememberedValue, _ *ParsedValue) (item.Value, error) {
		root, err := parseXML(textOf(v))
		if err != nil {
			return v, nil
		}
		out, err := path.query(root)
		out = strings.TrimSpace(out)
		switch {
		case err != nil:
			return v, fmt.Errorf("cannot extract error from XML with xpath %q: %w", params[0], err)
		case out != "":
			return v, errors.New(out)
		}
		return v, nil
	}, nil
}

// compileXMLToJSON compiles the step xmlToJson, which converts XML to JSON
func compileXMLToJSON([]string, item.Type) (stepFunc, error) {
	return func(v item.Value, _ int64, _ *rememberedValue, _ *ParsedValue) (item.Value, error) {
		root, err := parseXML(textOf(v))
		if err != nil {
			return v, fmt.Errorf("cannot convert XML to JSON: %w", err)
		}
		return item.FromText(string(appendXMLMembers([]byte{'{'}, root)) + "}"), nil
	}, nil
}

// appendXMLMembers appends the child elements of an XML node as JSON members. Elements with the same name become one
// array, at the place of the first.
func appendXMLMembers(out []byte, n *xmlquery.Node) []byte {
	same := map[string][]*xmlquery.Node{}
	var names []string
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		if c.Type != xmlquery.ElementNode {
			continue
		}
		if same[c.Data] == nil {
			names = append(names, c.Data)
		}
		same[c.Data] = append(same[c.Data], c)
	}
	for _, name := range names {
		if last := out[len(out)-1]; last != '{' {
			out = append(out, ',')
		}
		out = append(appendJSONString(out, name), ':')
		nodes := same[name]
		if len(nodes) == 1 {
			out = appendXMLElement(out, nodes[0])
			continue
		}
		for i, c := range nodes {
			out = append(out, "[,"[min(i, 1)])
			out = appendXMLElement(out, c)
		}
		out = append(out, ']')
	}
	return out
}

// appendXMLElement appends an XML element as JSON. It becomes null, a text, or an object with attributes (@name), text
// (#text) and child elements.
func appendXMLElement(out []byte, n *xmlquery.Node) []byte {
	var text strings.Builder
	elements := false
	attributes := slices.DeleteFunc(slices.Clone(n.Attr), func(a xmlquery.Attr) bool { // declarations of namespaces are none
		return a.Name.Space == "xmlns" || a.Name.Space == "" && a.Name.Local == "xmlns"
	})
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		switch c.Type {
		case xmlquery.TextNode, xmlquery.CharDataNode:
			if strings.TrimSpace(c.Data) != "" {
				text.WriteString(c.Data)
			}
		case xmlquery.ElementNode:
			elements = true
		}
	}
	switch {
	case len(attributes) == 0 && !elements && text.Len() == 0:
		return append(out, "null"...)
	case len(attributes) == 0 && !elements:
		return appendJSONString(out, text.String())
	}
	out = append(out, '{')
	for i, a := range attributes {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(appendJSONString(out, "@"+a.Name.Local), ':')
		out = appendJSONString(out, a.Value)
	}
	if text.Len() > 0 {
		if len(attributes) > 0 {
			out = append(out, ',')
		}
		out = append(out, `"#text":`...)
		out = appendJSONString(out, text.String())
	}
	return append(appendXMLMembers(out, n), '}')
}
