package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/muster-fleet/muster/internal/model"
)

// maxInput bounds what is read of one file, in bytes.
const maxInput = 32 << 20

// document is one resource as somebody wrote it.
type document struct {
	place string // disk.yaml:12
	body  json.RawMessage
}

// readFiles reads files, folders (*.yaml, *.yml, *.json in them, not deeper) and
// standard input ("-").
func (a *app) readFiles(paths []string) ([]document, error) {
	if len(paths) == 0 {
		return nil, model.Errorf(model.Invalid, "no file is given").WithHint("name a file, a folder or - for standard input: -f disk.yaml")
	}
	var all []document
	for _, path := range paths {
		docs, err := a.readPath(path)
		if err != nil {
			return nil, err
		}
		all = append(all, docs...)
	}
	if len(all) == 0 {
		return nil, model.Errorf(model.Invalid, "%s holds no resource", strings.Join(paths, ", ")).
			WithHint("an example: muster explain check")
	}
	return all, nil
}

func (a *app) readPath(path string) ([]document, error) {
	if path == "-" {
		data, err := io.ReadAll(io.LimitReader(a.Stdin, maxInput+1))
		if err != nil {
			return nil, fmt.Errorf("read standard input: %w", err)
		}
		return splitDocuments("standard input", data)
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, model.Errorf(model.NotFound, "there is no file %s", path)
	}
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		return splitDocuments(path, data)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var all []document
	for _, e := range entries { // by name
		switch filepath.Ext(e.Name()) {
		case ".yaml", ".yml", ".json":
			if e.IsDir() {
				continue
			}
			docs, err := a.readPath(filepath.Join(path, e.Name()))
			if err != nil {
				return nil, err
			}
			all = append(all, docs...)
		}
	}
	return all, nil
}

// splitDocuments turns a file of YAML or JSON documents (or lists of them, as
// muster get -o yaml prints) into resources.
func splitDocuments(name string, data []byte) ([]document, error) {
	if len(data) > maxInput {
		return nil, model.Errorf(model.TooLarge, "%s is larger than %s", name, model.Size(maxInput))
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var docs []document
	for {
		var node yaml.Node
		err := decoder.Decode(&node)
		if errors.Is(err, io.EOF) {
			return docs, nil
		}
		if err != nil {
			return nil, model.Errorf(model.Invalid, "%s: %s", name, strings.TrimPrefix(err.Error(), "yaml: "))
		}
		roots := node.Content
		if len(roots) == 1 && roots[0].Kind == yaml.SequenceNode {
			roots = roots[0].Content
		}
		for _, root := range roots {
			if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
				continue // an empty document
			}
			place := fmt.Sprintf("%s:%d", name, root.Line)
			if root.Kind != yaml.MappingNode {
				return nil, model.Errorf(model.Invalid, "%s: a resource is a mapping with apiVersion, kind, metadata and spec", place)
			}
			var value any
			if err := root.Decode(&value); err != nil {
				return nil, model.Errorf(model.Invalid, "%s: %w", place, err)
			}
			body, err := json.Marshal(value)
			if err != nil {
				return nil, model.Errorf(model.Invalid, "%s: %w", place, err)
			}
			docs = append(docs, document{place, body})
		}
	}
}
