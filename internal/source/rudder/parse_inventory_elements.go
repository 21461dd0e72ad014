package rudder

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/muster-fleet/muster/internal/model"
)

// Bounds of one inventory.
const (
	maxDepth    = 32
	maxElements = 200_000
)

// element is one element of an inventory in FusionInventory's XML or JSON.
type element struct {
	name     string // in capitals
	text     string
	raw      []byte // of the text, while the element is open
	children []*element
}

// child returns the first child element with a name, or an empty element.
func (e *element) child(name string) *element {
	for _, c := range e.children {
		if c.name == name {
			return c
		}
	}
	return &element{}
}

// childrenNamed returns the child elements with a name.
func (e *element) childrenNamed(name string) (list []*element) {
	for _, c := range e.children {
		if c.name == name {
			list = append(list, c)
		}
	}
	return list
}

// value returns the text of the first child element with a name, without surrounding space.
func (e *element) value(name string) string { return strings.TrimSpace(e.child(name).text) }

// values returns the texts of all child elements with a name, except empty texts.
func (e *element) values(name string) (list []string) {
	for _, c := range e.childrenNamed(name) {
		if text := strings.TrimSpace(c.text); text != "" {
			list = append(list, text)
		}
	}
	return list
}

// parseElements decodes an inventory in XML or JSON, and returns its outermost element.
func parseElements(data []byte) (*element, error) {
	p := elementParser{}
	root := &element{}
	var err error
	if data = bytes.TrimLeft(data, "\ufeff \t\r\n"); bytes.HasPrefix(data, []byte("{")) {
		err = p.parseJSON(data, root)
	} else {
		err = p.parseXML(data, root)
	}
	if err != nil {
		return nil, model.Errorf(model.Invalid, "cannot read the inventory: %w", err)
	}
	return root, nil
}

// elementParser decodes an inventory, and counts its elements to limit their number.
type elementParser struct{ count int }

// enter counts one more element, and returns an error for too many elements or too deep nesting.
func (p *elementParser) enter(depth int) error {
	if p.count++; p.count > maxElements {
		return fmt.Errorf("the inventory has more than %d elements", maxElements)
	}
	if depth > maxDepth {
		return fmt.Errorf("the inventory has elements nested more than %d levels deep", maxDepth)
	}
	return nil
}

// parseXML decodes an inventory in XML into its root element. It refuses a document type, so that XML has no
// other entities than its own.
func (p *elementParser) parseXML(data []byte, root *element) error {
	d := xml.NewDecoder(bytes.NewReader(data))
	var open []*element
	for {
		token, err := d.RawToken()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		switch t := token.(type) {
		case xml.Directive:
			return errors.New("it has a document type")
		case xml.StartElement:
			e := &element{name: strings.ToUpper(t.Name.Local)}
			switch {
			case len(open) > 0:
				last := open[len(open)-1]
				last.children = append(last.children, e)
			case root.name != "":
				return errors.New("it has two outermost elements")
			default:
				*root = *e
				e = root
			}
			open = append(open, e)
			if err := p.enter(len(open)); err != nil {
				return err
			}
		case xml.EndElement:
			if len(open) == 0 || open[len(open)-1].name != strings.ToUpper(t.Name.Local) {
				return fmt.Errorf("element %s has an end tag without a start tag", model.Truncate(t.Name.Local, 100))
			}
			last := open[len(open)-1]
			last.text, last.raw = string(last.raw), nil
			open = open[:len(open)-1]
		case xml.CharData:
			if n := len(open); n > 0 {
				open[n-1].raw = append(open[n-1].raw, t...)
			}
		}
	}
	if len(open) > 0 || root.name == "" {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// parseJSON decodes a JSON object of the inventory into an element with child elements. Its members are
// children, and the values of a list are children of one name.
func (p *elementParser) parseJSON(data []byte, root *element) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := p.readJSON(d, root, 1); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("it has text behind its end")
	}
	return nil
}

// readJSON decodes one JSON value into an element of the inventory. A list becomes several children of the element's
// parent: readMember does that.
func (p *elementParser) readJSON(d *json.Decoder, e *element, depth int) error {
	if err := p.enter(depth); err != nil {
		return err
	}
	token, err := d.Token()
	if err != nil {
		return err
	}
	switch t := token.(type) {
	case json.Delim:
		if t == '[' { // a list within a list
			for d.More() {
				one := &element{name: e.name}
				if err := p.readJSON(d, one, depth+1); err != nil {
					return err
				}
				e.children = append(e.children, one)
			}
			_, err := d.Token()
			return err
		}
		for d.More() {
			name, err := d.Token()
			if err != nil {
				return err
			}
			one := &element{name: strings.ToUpper(name.(string))}
			if err := p.readJSON(d, one, depth+1); err != nil {
				return err
			}
			if len(one.children) > 0 && one.children[0].name == one.name { // it was a list
				e.children = append(e.children, one.children...)
			} else {
				e.children = append(e.children, one)
			}
		}
		_, err := d.Token()
		return err
	case string:
		e.text = t
	case json.Number:
		e.text = t.String()
	case bool:
		e.text = fmt.Sprint(t)
	}
	return nil
}
