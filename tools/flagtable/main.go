//go:build ignore

// Command flagtable adds a vLLM release to the option tables that the program embeds:
//
//	go run tools/flagtable/main.go -version 0.34.0 -from 0.34.0.json
//
// The file comes from dump.py beside this program, run where that release is installed. It is a single file outside
// any package (hence the build tag), because the folder above is a module of its own.
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"h100-inference-control-plane/runner/engine/flags"
)

func main() {
	version := flag.String("version", "", "release, such as 0.34.0")
	from := flag.String("from", "", "what dump.py wrote for it")
	dir := flag.String("dir", "runner/engine/flags", "folder of table.jsonl")
	flag.Parse()
	if err := add(*dir, *version, *from); err != nil {
		fmt.Fprintln(os.Stderr, "flagtable:", err)
		os.Exit(1)
	}
}

// add rewrites dir/table.jsonl, and keeps the source beside it for the test that rebuilds the tables from nothing.
func add(dir, version, from string) error {
	if version == "" || from == "" {
		return errors.New("usage: make flags VERSION=0.34.0 FROM=0.34.0.json (python3 tools/flagtable/dump.py > 0.34.0.json writes the file)")
	}
	src, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("read the release's options: %w", err)
	}
	path := filepath.Join(dir, "table.jsonl")
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("read the tables: %w", err)
	}
	table, err := flags.Add(old, version, src)
	if err != nil {
		return err
	}
	packed, err := pack(src)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "testdata", version+".json.gz"), packed, 0o644); err != nil {
		return fmt.Errorf("keep the source: %w", err)
	}
	if err := os.WriteFile(path, table, 0o644); err != nil {
		return fmt.Errorf("write the tables: %w", err)
	}
	fmt.Printf("%s: %d bytes, was %d\n", path, len(table), len(old))
	return nil
}

// pack makes the same bytes from the same content: no spaces, no time, no name.
func pack(src []byte) ([]byte, error) {
	var compact, out bytes.Buffer
	if err := json.Compact(&compact, src); err != nil {
		return nil, fmt.Errorf("read the release's options: %w", err)
	}
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, fmt.Errorf("pack the source: %w", err)
	}
	if _, err := z.Write(compact.Bytes()); err != nil {
		return nil, fmt.Errorf("pack the source: %w", err)
	}
	if err := z.Close(); err != nil {
		return nil, fmt.Errorf("pack the source: %w", err)
	}
	return out.Bytes(), nil
}
