package sensuimport

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/muster-fleet/muster/internal/model"
)

// object is one resource of Sensu, the context of the function that imports its kind.
type object struct {
	importer  *importer
	file      string
	line      int
	kind      string // CheckConfig
	name      string
	namespace string
	meta      *fields
	spec      *fields
	broken    bool // it has an expression that cannot be translated, and must not run
}

// maxDocument is how many bytes of one file are read.
const maxDocument = 64 << 20

// read finds the objects of a file: YAML documents, or JSON one after the other (dump's
// wrapped-json), or a list of either.
func read(file string, data []byte) ([]object, error) {
	if len(data) > maxDocument {
		return nil, model.Errorf(model.TooLarge, "%s has %d bytes, and %d are read", file, len(data), maxDocument).WithHint("dump one type, or one namespace, at a time")
	}
	trimmed := bytes.TrimSpace(data)
	if len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '[') {
		return readJSON(file, data)
	}
	return readYAML(file, data)
}

func readJSON(file string, data []byte) (list []object, err error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	for {
		begin := dec.InputOffset()
		begin += int64(len(data[begin:]) - len(bytes.TrimLeft(data[begin:], " \t\r\n")))
		var value any
		if err := dec.Decode(&value); err == io.EOF {
			return list, nil
		} else if err != nil {
			return nil, model.Errorf(model.Invalid, "%s: in the document that begins in line %d: %v", file, lineOf(data, begin), err)
		}
		some, err := objects(file, lineOf(data, begin), value)
		if err != nil {
			return nil, err
		}
		list = append(list, some...)
	}
}

func lineOf(data []byte, offset int64) int {
	return 1 + bytes.Count(data[:min(offset, int64(len(data)))], []byte("\n"))
}

func readYAML(file string, data []byte) (list []object, err error) {
	dec, err := yaml.NewLoader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	for {
		var node yaml.Node
		if err := dec.Load(&node); err == io.EOF {
			return list, nil
		} else if err != nil {
			return nil, model.Errorf(model.Invalid, "%s: %v", file, err)
		}
		if len(node.Content) == 0 || node.Content[0].Tag == "!!null" {
			continue
		}
		top := node.Content[0]
		items := []*yaml.Node{top}
		if top.Kind == yaml.SequenceNode {
			items = top.Content
		}
		for _, item := range items {
			var value any
			if err := item.Decode(&value); err != nil {
				return nil, model.Errorf(model.Invalid, "%s:%d: %v", file, item.Line, err)
			}
			some, err := objects(file, item.Line, value)
			if err != nil {
				return nil, err
			}
			list = append(list, some...)
		}
	}
}

// objects are those in one document.
func objects(file string, line int, value any) (list []object, err error) {
	switch v := value.(type) {
	case []any:
		for _, one := range v {
			some, err := objects(file, line, one)
			if err != nil {
				return nil, err
			}
			list = append(list, some...)
		}
		return list, nil
	case map[string]any:
		one, err := wrapped(file, line, v)
		return []object{one}, err
	}
	return nil, model.Errorf(model.Invalid, "%s:%d: this is no resource of Sensu", file, line).WithHint("sensuctl dump all --all-namespaces --format yaml --file sensu.yaml")
}

// wrapped reads {type, api_version, metadata, spec}; metadata may stand in spec.
func wrapped(file string, line int, v map[string]any) (object, error) {
	top := newFields("", v)
	o := object{file: file, line: line, kind: top.text("type")}
	if o.kind == "" {
		return o, model.Errorf(model.Invalid, "%s:%d: no type: this is no resource as sensuctl dump writes it", file, line).
			WithHint("sensuctl dump all --all-namespaces --format yaml --file sensu.yaml; lists of the API (sensuctl check list --format json) do not say what they are: take --format wrapped-json")
	}
	o.spec = top.object("spec")
	if o.meta = top.object("metadata"); len(o.meta.values) == 0 {
		o.meta = o.spec.object("metadata")
	} else {
		o.spec.value("metadata")
	}
	o.name, o.namespace = o.meta.text("name"), o.meta.text("namespace")
	o.meta.value("created_by")
	return o, nil
}

// where returns the object's place as FILE:LINE.
func (o *object) where() string { return fmt.Sprintf("%s:%d", o.file, o.line) }

// title returns its type and Sensu's name.
func (o *object) title() string {
	return strings.TrimSuffix(o.kind+" "+strings.TrimPrefix(o.namespace+"/"+o.name, "/"), " ")
}
