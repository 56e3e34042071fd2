"""Writes C++ that holds text files: embed_texts.py FUNCTION FILE... > OUT.cc

FUNCTION returns them as a std::vector<twinstep::NamedText>, sorted by name.
"""

import pathlib
import sys

DELIMITER = "textproto"


def main():
    function, files = sys.argv[1], sorted(map(pathlib.Path, sys.argv[2:]), key=lambda f: f.stem)
    print('#include "sim/textproto/named_texts.h"\n')
    print("namespace twinstep {\n")
    print(f"const std::vector<NamedText>& {function}();\n")
    print(f"const std::vector<NamedText>& {function}() {{")
    print("  static const std::vector<NamedText> texts = {")
    for file in files:
        text = file.read_text(encoding="utf-8")
        if f"){DELIMITER}\"" in text:
            sys.exit(f"{file}: contains the end of a C++ raw string")
        print(f'      {{"{file.stem}", R"{DELIMITER}({text}){DELIMITER}"}},')
    print("  };")
    print("  return texts;")
    print("}\n")
    print("}  // namespace twinstep")


main()
