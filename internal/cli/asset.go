package cli

import (
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/cli/screen"
	"github.com/muster-fleet/muster/internal/client"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
)

// assetAddCommand makes the command muster asset add, which uploads an archive as a build (for one platform).
func assetAddCommand(s *commandLine) *cobra.Command {
	f := &changeFlags{}
	var build model.AssetBuild
	return s.buildCommand(command{
		use: "add NAME [FILE]", oneNamespace: true, short: "Upload an archive as a build of an asset",
		args: cobra.RangeArgs(1, 2), complete: cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault),
		flags: func(flags *pflag.FlagSet) {
			f.registerFlags(flags)
			flags.StringVar(&build.OS, "os", "", "only for machines with this fact os: linux, windows")
			flags.StringVar(&build.Arch, "arch", "", "only for machines with this fact arch: amd64, arm64, armv7")
			flags.StringVar(&build.Distribution, "distribution", "", "only for machines with this fact distribution: debian, rhel")
			flags.StringVar(&build.DistributionVersion, "distribution-version", "", "only for machines with this fact distributionVersion; 9 is also 9.4, '>=8,<10' compares the first number")
			flags.StringVar(&build.URL, "url", "", "address from which the server fetches the archive")
			flags.StringVar(&build.SHA512, "sha512", "", "SHA-512 of the archive, as sha512sum prints it")
		},
		check: func(c *commandCall) (err error) {
			switch {
			case len(c.args) == 2 && (build.URL != "" || build.SHA512 != ""):
				return model.Errorf(model.Invalid, "the argument FILE cannot be combined with --url or --sha512").WithHint("leave these flags out")
			case len(c.args) == 1 && (build.URL == "" || build.SHA512 == ""):
				return model.Errorf(model.Invalid, "the archive file of the asset is missing").WithHint("%s %s FILE, or --url and --sha512", c.cmd.CommandPath(), c.args[0])
			case len(c.args) == 2:
				build.SHA512, err = sha512OfFile(c.args[1])
			}
			return err
		},
		run: func(c *commandCall) error {
			if len(c.args) == 2 && !f.DryRun {
				file, err := os.Open(c.args[1])
				if err != nil {
					return fmt.Errorf("open the asset archive: %w", err)
				}
				defer file.Close()
				if err := c.api.Resources.PutArchive(c.ctx, build.SHA512, file); err != nil {
					return err
				}
			}
			return c.printApplyResult(addBuildToAsset(c, f, c.args[0], build))
		},
	})
}

// sha512OfFile returns the SHA-512 of a file as hexadecimal text.
func sha512OfFile(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", model.Errorf(model.Invalid, "open the asset archive: %w", err)
	}
	defer file.Close()
	hash := sha512.New()
	size, err := io.Copy(hash, file)
	if err != nil {
		return "", model.Errorf(model.Invalid, "read the asset archive: %w", err)
	}
	if size > model.MaxAssetBytes {
		return "", model.Errorf(model.TooLarge, "%s is larger than %s", path, model.Size(model.MaxAssetBytes)).WithHint("install the content of the archive as a package instead")
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// addBuildToAsset adds a build (the archive for one platform) to the declared Asset resource on the server. It
// replaces a build for the same platform. A concurrent change of the asset is a conflict.
func addBuildToAsset(c *commandCall, f *changeFlags, name string, build model.AssetBuild) (v1.Applied, error) {
	k := kind.Asset()
	namespace, name, err := c.findObject(k.KindInfo, name)
	if err != nil {
		return v1.Applied{}, err
	}
	r := model.Resource{APIVersion: model.APIVersion, Kind: k.Name, Metadata: model.Metadata{Name: name, Namespace: namespace}}
	spec := &model.AssetSpec{}
	data, tag, err := c.api.Resources.Get(c.ctx, k.KindInfo, namespace, name)
	switch {
	case err == nil:
		stored, err := c.Kinds.DecodeResource(data)
		if err != nil {
			return v1.Applied{}, err
		}
		r.Metadata, spec = stored.Metadata, stored.Spec.(*model.AssetSpec)
	case model.ClassOf(err) != model.NotFound:
		return v1.Applied{}, err
	}
	same := slices.IndexFunc(spec.Builds, func(b model.AssetBuild) bool { return b.Platform() == build.Platform() })
	if same < 0 {
		spec.Builds = append(spec.Builds, build)
	} else {
		spec.Builds[same] = build
	}
	r.Spec = spec
	body, err := json.Marshal(&r)
	if err != nil {
		return v1.Applied{}, fmt.Errorf("encode asset: %w", err)
	}
	if tag != "" {
		return c.api.Resources.Put(c.ctx, k.KindInfo, namespace, name, body, tag, c.changeOptions(f))
	}
	return c.api.Resources.Apply(c.ctx, v1.ApplyRequest{
		ChangeOptions: c.changeOptions(f), Resources: []json.RawMessage{body}, Namespace: c.namespace,
	})
}

// assetBuildRow is one row of muster asset list, a build of an asset with its archive's state. A build is the archive
// for one platform.
type assetBuildRow struct {
	Namespace string           `json:"namespace"`
	Name      string           `json:"name"`
	Build     model.AssetBuild `json:"build"`
	Archive   v1.Archive       `json:"archive"`
}

// assetListCommand makes the command muster asset list.
func assetListCommand(s *commandLine) *cobra.Command {
	f := listFlags{}
	return s.buildCommand(command{
		use: "list", short: "List assets and the state of their archives", args: cobra.NoArgs,
		flags: func(flags *pflag.FlagSet) {
			f.registerSelector(flags, "assets with these labels")
			f.registerWhere(flags, "metadata and spec: spec.builds.size() > 1")
		},
		run: readAndPrintList(func(c *commandCall) (listOutput[assetBuildRow], error) {
			k := kind.Asset().KindInfo
			rows, _, err := client.Pages(0, func(size int, after string) (rows []assetBuildRow, _ string, _ error) {
				page, err := c.api.Resources.List(c.ctx, k, c.listNamespace(), v1.ResourceFilter{Selector: f.Selector, Where: f.Where}, false, size, after)
				if err != nil {
					return nil, "", err
				}
				for _, item := range page.Items {
					r, err := c.Kinds.DecodeResource(item)
					if err != nil {
						return nil, "", err
					}
					for _, b := range r.Spec.(*model.AssetSpec).Builds {
						archive, err := c.api.Resources.Archive(c.ctx, b.SHA512)
						if err != nil {
							return nil, "", err
						}
						rows = append(rows, assetBuildRow{r.Metadata.Namespace, r.Metadata.Name, b, archive})
					}
				}
				return rows, page.Next, nil
			})
			return listOutput[assetBuildRow]{value: rows, items: rows, empty: f.emptyText("assets", false, c.listNamespace(), "Upload one: muster asset add NAME FILE"), columns: screen.SplitColumns("NAMESPACE|NAME|FOR|SHA512|ARCHIVE").HideUnless(c.allNamespaces, "NAMESPACE"), row: func(r assetBuildRow) []any {
				return []any{r.Namespace, r.Name, r.Build.Platform(), r.Build.SHA512[:min(12, len(r.Build.SHA512))], archiveText(&r.Archive)}
			}}, err
		}),
	})
}

// archiveText formats the size of an Asset's archive, or the reason why the server lacks the archive.
func archiveText(a *v1.Archive) string {
	switch {
	case a.Stored:
		return model.Size(a.Bytes).String()
	case a.Trouble != "":
		return "missing: " + a.Trouble
	case a.Fetching:
		return "being fetched"
	}
	return "missing: upload it with muster asset add NAME FILE"
}
