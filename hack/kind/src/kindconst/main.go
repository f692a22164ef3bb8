// Command kindconst prints the value of a string constant of the Go file on its standard input.
//
//	kindconst NAME <FILE
//
// kind keeps its storage manifest and the names of the images in it in constants that no other
// package can import. The type checker can tell their value without building kind.
package main

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: kindconst NAME <FILE")
		os.Exit(2)
	}
	value, err := stringConstant(os.Stdin, os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "kindconst:", err)
		os.Exit(1)
	}
	fmt.Print(value)
}

func stringConstant(source io.Reader, name string) (string, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "stdin", source, 0)
	if err != nil {
		return "", err
	}
	checked, err := new(types.Config).Check("source", files, []*ast.File{file}, nil)
	if err != nil {
		return "", err
	}
	found, ok := checked.Scope().Lookup(name).(*types.Const)
	if !ok || found.Val().Kind() != constant.String {
		return "", fmt.Errorf("there is no string constant %s", name)
	}
	return constant.StringVal(found.Val()), nil
}
