package policy

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/muster-fleet/muster/internal/model"
)

// readAsset returns the content of a file in the archive of an asset. The asset cache has verified the hash of the archive. In a template,
// readAsset expands the parameters of the directive.
func (r *directiveRun) readAsset(ctx context.Context, m *model.FileContentMethod) (string, error) {
	i := slices.IndexFunc(r.definition.Assets, func(a model.DefinitionAsset) bool { return a.Name == m.Asset })
	if i < 0 {
		return "", fmt.Errorf("the directive has no asset %s", m.Asset)
	}
	folder, err := r.AssetFolder(ctx, &r.definition.Assets[i])
	if err != nil {
		return "", err
	}
	data, err := readInsideFolder(folder, m.File)
	if err != nil {
		return "", fmt.Errorf("file %s of asset %s: %w", m.File, m.Asset, err)
	}
	if !m.Template {
		return string(data), nil
	}
	template, err := model.ParseMethodTemplate(string(data), false)
	if err != nil {
		return "", fmt.Errorf("file %s of asset %s: %w", m.File, m.Asset, err)
	}
	return template.Expand(r.values)
}

// readInsideFolder reads a regular file inside the given folder, and follows no link out of the folder. It
// follows no link out of the folder.
func readInsideFolder(folder, name string) ([]byte, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("the file is not a regular file")
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("the file is larger than %s", model.Size(maxFile))
	}
	return data, err
}
