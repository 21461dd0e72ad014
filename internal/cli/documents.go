package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
)

// maxInput bounds what is read of one file, in bytes.
const maxInput = 32 << 20

// declaration is one resource of a file.
type declaration struct {
	body    json.RawMessage
	located *kind.Located
}

// readFiles reads files, folders (*.yaml, *.yml, *.json in them, however deep; see
// folder.go) and standard input ("-").
func (a *app) readFiles(paths []string) ([]declaration, error) {
	if len(paths) == 0 {
		return nil, model.Errorf(model.Invalid, "no file is given").WithHint("name a file, a folder or - for standard input: -f disk.yaml")
	}
	var all []declaration
	var flaws model.Flaws
	for _, path := range paths {
		docs, err := a.readPath(path)
		found, err := flawed(err)
		if err != nil {
			return nil, err
		}
		all, flaws = append(all, docs...), append(flaws, found...)
	}
	if flaws = append(flaws, a.twice(all)...); len(flaws) > 0 {
		return nil, flaws.Err()
	}
	return all, nil
}

func noResource(paths []string) error {
	hint := "an example: muster explain check"
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			hint = "of a folder, files are read whose names end in .yaml, .yml or .json and begin with no dot; " + hint
			break
		}
	}
	return model.Errorf(model.Invalid, "%s holds no resource", strings.Join(paths, ", ")).WithHint("%s", hint)
}

// twice finds resources that are declared more than once.
func (a *app) twice(docs []declaration) (flaws model.Flaws) {
	seen := map[string]*model.Flaw{}
	for _, d := range docs {
		r := &d.located.Resource
		ref := refOf(r.Kind, cmp.Or(r.Metadata.Namespace, a.ns()), r.Metadata.Name)
		f := d.located.Locate(&model.Flaw{Field: "metadata.name"})
		if was := seen[ref]; was != nil {
			f.Text, f.Hint = ref+" is declared twice", fmt.Sprintf("first in %s:%d; keep one of them", was.File, was.Line)
			flaws = append(flaws, f)
			continue
		}
		seen[ref] = f
	}
	return flaws
}

func (a *app) readPath(path string) ([]declaration, error) {
	if path == "-" {
		data, err := io.ReadAll(io.LimitReader(a.Stdin, maxInput+1))
		if err != nil {
			return nil, fmt.Errorf("read standard input: %w", err)
		}
		return a.splitDocuments("standard input", data)
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, model.Errorf(model.NotFound, "there is no file %s", path).WithHint("what is there: ls %s", filepath.Dir(path))
	}
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		return a.splitDocuments(path, data)
	}
	return a.readFolder(path)
}

// splitDocuments reads a file of YAML or JSON documents (or lists of them, as
// muster get -o yaml prints). All that can be found wrong without a server is in the
// error, each with file and line.
func (a *app) splitDocuments(name string, data []byte) ([]declaration, error) {
	if len(data) > maxInput {
		return nil, model.Errorf(model.TooLarge, "%s is larger than %s", name, model.Size(maxInput))
	}
	list, err := a.Kinds.Read(name, data)
	if err != nil {
		return nil, err
	}
	docs := make([]declaration, len(list))
	for i := range list {
		body, err := json.Marshal(&list[i].Resource)
		if err != nil {
			return nil, model.Errorf(model.Invalid, "%s: %w", name, err)
		}
		docs[i] = declaration{body, &list[i]}
	}
	return docs, nil
}

// flawed sets apart what is wrong with a file, so that all files can be read before
// it is said, from what ends the reading.
func flawed(err error) (model.Flaws, error) {
	var flaws model.Flaws
	if errors.As(err, &flaws) {
		return flaws, nil
	}
	return nil, err
}
