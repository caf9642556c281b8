// Fields of plain data as values: what a row of a table reads and writes.
#pragma once

namespace hif8 {

// Returns a function that gives the member of an object, const or not, at the end of a path of
// members.
template <typename... Members>
auto At(Members... members) {
  return [members...](auto& object) -> auto& { return (object.*....*members); };
}

}  // namespace hif8
