package tools

import (
	"context"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/muster-fleet/muster/internal/filter"
	"github.com/muster-fleet/muster/internal/model"
)

// maxScripts bounds the files that one asset may have as JavaScript.
const maxScripts = 64

// Scripts reads the JavaScript (lib/*.js) of Assets, NAMESPACE/NAME. It returns no list if key would equal known. It does
// not wait: an Asset that is not extracted yet is an error.
func (b *Box) Scripts(refs []string, known string) (list []filter.Library, key string, err error) {
	var sums []string
	for _, ref := range refs {
		sum, err := b.sum(ref)
		if err != nil {
			return nil, "", err
		}
		sums = append(sums, sum)
	}
	if key = strings.Join(sums, " "); key == known {
		return nil, key, nil
	}
	now, cancel := context.WithCancel(context.Background())
	cancel()
	for i, ref := range refs {
		dir, done, err := b.cache.Use(now, sums[i])
		if err != nil {
			return nil, "", model.Errorf(model.Unavailable, "asset %s is not here: %w", ref, err)
		}
		scripts, err := scriptsIn(ref, dir)
		done()
		if err != nil {
			if class := model.ClassOf(err); class != model.TooLarge {
				err = model.Errorf(model.Unavailable, "asset %s cannot be read: %w", ref, err)
			}
			return nil, "", err
		}
		list = append(list, scripts...)
	}
	return list, key, nil
}

// scriptsIn reads the scripts of one Asset by name. An Asset without scripts has commands only.
func scriptsIn(ref, dir string) (list []filter.Library, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	names, err := fs.Glob(root.FS(), "lib/*.js")
	if err != nil {
		return nil, err
	}
	if len(names) > maxScripts {
		return nil, model.Errorf(model.TooLarge, "asset %s has more than %d files lib/*.js", ref, maxScripts)
	}
	for _, name := range names {
		text, err := scriptIn(root, name)
		if err != nil {
			return nil, err
		}
		if len(text) > filter.MaxLibraries {
			return nil, model.Errorf(model.TooLarge, "asset %s: %s has more than %d bytes", ref, name, filter.MaxLibraries)
		}
		list = append(list, filter.Library{Name: ref + ":" + name, Source: text})
	}
	return list, nil
}

func scriptIn(root *os.Root, name string) (string, error) {
	f, err := root.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, filter.MaxLibraries+1))
	return string(text), err
}
