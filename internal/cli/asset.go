package cli

import (
	"cmp"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
)

func (a *app) assetCmd() *cobra.Command {
	c := &cobra.Command{Use: "asset", Short: "Upload archives with programs that checks and handlers need, and see where they are", RunE: helpOf,
		Long:    "An asset is an archive with programs that checks and handlers need and machines do not have. The server\nkeeps it, and the agents of the checks that name it fetch it (muster explain asset).",
		Example: "  muster asset add check-plugins plugins-amd64.tar.gz --os linux --arch amd64\n  muster asset list",
	}
	c.AddCommand(a.assetAdd(), a.assetList())
	return c
}

func (a *app) assetAdd() *cobra.Command {
	var f applyFlags
	var build model.AssetBuild
	c := &cobra.Command{
		Use: "add NAME [FILE]", Short: "Upload an archive, and make it a build of an asset",
		Long: "Uploads an archive (tar, tar.gz, tar.bz2 or zip) and writes it into the asset's builds, in the place\nof the one for the same machines if there is one. A new asset is made. With --url and --sha512 instead of\n" +
			"FILE, the server fetches the archive itself.",
		Example: "  muster asset add check-plugins plugins-amd64.tar.gz --os linux --arch amd64\n" +
			"  muster asset add check-plugins --url https://example.com/plugins.tar.gz --sha512 0f1e…",
		Args: cobra.RangeArgs(1, 2), ValidArgsFunction: cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault),
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case len(args) == 2 && (build.URL != "" || build.SHA512 != ""):
				return model.Errorf(model.Invalid, "FILE says what it is by itself").WithHint("leave out --url and --sha512")
			case len(args) == 1 && (build.URL == "" || build.SHA512 == ""):
				return model.Errorf(model.Invalid, "no archive").WithHint("name the file, or say --url and --sha512")
			case len(args) == 2 && !f.dryRun:
				if err := a.uploadArchive(c, &build, args[1]); err != nil {
					return err
				}
			case len(args) == 2:
				sum, err := sumOfFile(args[1])
				if err != nil {
					return err
				}
				build.SHA512 = sum
			}
			applied, err := a.addBuild(c, &f, args[0], build)
			if err != nil {
				return err
			}
			return a.printApplied(applied, *f.output)
		},
	}
	for _, x := range []struct {
		to          *string
		name, usage string
	}{
		{&build.OS, "os", "only for machines of this fact os: linux, windows"},
		{&build.Arch, "arch", "only for machines of this fact arch: amd64, arm64"},
		{&build.Distribution, "distribution", "only for machines of this fact distribution: debian, rhel"},
		{&build.DistributionVersion, "distribution-version", "only for machines whose fact distributionVersion is this, or begins so: 9 is also 9.4"},
		{&build.URL, "url", "where the server fetches the archive"},
		{&build.SHA512, "sha512", "the archive's SHA-512, as sha512sum prints it"},
	} {
		c.Flags().StringVar(x.to, x.name, "", x.usage)
	}
	f.add(c, false, true)
	return c
}

// uploadArchive sends the file unless the server has it, and writes its sum into the build.
func (a *app) uploadArchive(c *cobra.Command, build *model.AssetBuild, path string) error {
	sum, err := sumOfFile(path)
	if err != nil {
		return err
	}
	build.SHA512 = sum
	client, err := a.connect()
	if err != nil {
		return err
	}
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open archive: %w", err)
	}
	defer file.Close()
	return client.Resources.PutArchive(c.Context(), sum, file)
}

func sumOfFile(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", model.Errorf(model.Invalid, "open archive: %w", err)
	}
	defer file.Close()
	hash := sha512.New()
	size, err := io.Copy(hash, file)
	if err != nil {
		return "", model.Errorf(model.Invalid, "read archive: %w", err)
	}
	if size > model.MaxAssetBytes {
		return "", model.Errorf(model.TooLarge, "%s is larger than %s", path, model.Size(model.MaxAssetBytes)).WithHint("install what it holds as a package")
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// addBuild writes the build into the asset, in the place of the one for the same machines.
func (a *app) addBuild(c *cobra.Command, f *applyFlags, name string, build model.AssetBuild) (v1.Applied, error) {
	k, err := a.kindOf("Asset")
	if err != nil {
		return v1.Applied{}, err
	}
	client, err := a.connect()
	if err != nil {
		return v1.Applied{}, err
	}
	r := model.Resource{APIVersion: model.APIVersion, Kind: k.Name, Metadata: model.Metadata{Name: name, Namespace: a.ns()}}
	spec := &model.AssetSpec{}
	data, tag, err := client.Resources.Get(c.Context(), k.KindInfo, a.ns(), name)
	switch {
	case err == nil:
		if r.Metadata, spec, err = assetOf(data); err != nil {
			return v1.Applied{}, err
		}
	case model.ClassOf(err) != model.NotFound:
		return v1.Applied{}, err
	}
	known := false
	for i := range spec.Builds {
		if spec.Builds[i].Platform() == build.Platform() {
			spec.Builds[i], known = build, true
		}
	}
	if !known {
		spec.Builds = append(spec.Builds, build)
	}
	r.Spec = spec
	body, err := json.Marshal(&r)
	if err != nil {
		return v1.Applied{}, fmt.Errorf("encode asset: %w", err)
	}
	if tag != "" { // what somebody else changed meanwhile is a conflict
		return client.Resources.Put(c.Context(), k.KindInfo, a.ns(), name, body, tag, a.message(f), f.maxAffected, f.dryRun, f.yes)
	}
	return client.Resources.Apply(c.Context(), v1.ApplyRequest{
		Resources: []json.RawMessage{body}, DryRun: f.dryRun, Message: a.message(f), MaxAffected: f.maxAffected, Yes: f.yes, Namespace: a.namespace,
	})
}

// assetOf reads an asset as the server sends it.
func assetOf(data json.RawMessage) (model.Metadata, *model.AssetSpec, error) {
	o, err := decodeObject(data)
	if err != nil {
		return o.Metadata, nil, err
	}
	spec, err := kind.All().DecodeSpec("Asset", o.Spec)
	if err != nil {
		return o.Metadata, nil, err
	}
	return o.Metadata, spec.(*model.AssetSpec), nil
}

func (a *app) assetList() *cobra.Command {
	var output *format
	var f v1.ResourceFilter
	c := &cobra.Command{
		Use: "list", Short: "List assets, and whether the server has their archives", Args: cobra.NoArgs,
		Example: "  muster asset list",
		RunE: func(c *cobra.Command, _ []string) error {
			k, err := a.kindOf("Asset")
			if err != nil {
				return err
			}
			client, err := a.connect()
			if err != nil {
				return err
			}
			type row struct {
				Namespace string           `json:"namespace"`
				Name      string           `json:"name"`
				Build     model.AssetBuild `json:"build"`
				Archive   v1.Archive       `json:"archive"`
			}
			var rows []row
			for after := ""; ; {
				page, err := client.Resources.List(c.Context(), k.KindInfo, a.ns(), f, false, 1000, after)
				if err != nil {
					return err
				}
				for _, item := range page.Items {
					metadata, spec, err := assetOf(item)
					if err != nil {
						return err
					}
					for _, b := range spec.Builds {
						archive, err := client.Resources.Archive(c.Context(), b.SHA512)
						if err != nil {
							return err
						}
						rows = append(rows, row{metadata.Namespace, metadata.Name, b, archive})
					}
				}
				if after = page.Next; after == "" {
					break
				}
			}
			if output.machine() {
				return a.printValue(*output, rows)
			}
			t := newTable("NAME", "FOR", "SHA512", "ARCHIVE")
			for _, r := range rows {
				t.add(r.Name, r.Build.Platform(), r.Build.SHA512[:min(12, len(r.Build.SHA512))], archiveText(&r.Archive))
			}
			return t.write(a.Env)
		},
	}
	output = formatFlag(c)
	c.Flags().StringVarP(&f.Selector, "selector", "l", "", "those with these labels: team=web")
	c.Flags().StringVar(&f.Where, "where", "", "CEL over metadata and spec")
	return c
}

func archiveText(x *v1.Archive) string {
	switch {
	case x.Stored:
		return model.Size(x.Bytes).String()
	case x.Trouble != "":
		return "not here: " + x.Trouble
	case x.Fetching:
		return "is being fetched"
	}
	return cmp.Or(x.Trouble, "not here: nobody has uploaded it (muster asset add NAME FILE)")
}
