import java.util.*;
import org.apache.paimon.fs.Path;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.schema.SchemaChange;
import org.apache.paimon.schema.SchemaManager;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.types.*;

/** The verbs that make schemas: a new table, and changes of one. */
final class Altering {
    private static SchemaManager schemas(Oracle.Call call) {
        String[] name = call.words.get(1).split("\\.", 2);
        return new SchemaManager(new Files(), new Path(new Path(call.words.get(0), name[0] + ".db"), name[1]));
    }

    /** Input: {"columns":[["id","BIGINT NOT NULL"],…],"primaryKeys":[…],"partitionKeys":[…],"options":{…},"comment":…} */
    static void create(Oracle.Call call) throws Exception {
        JsonNode node = Oracle.json(call.in.readLine());
        Schema.Builder schema = Schema.newBuilder();
        List<String> keys = new ArrayList<>(), partition = new ArrayList<>();
        for (JsonNode c : node.path("columns")) schema.column(c.get(0).asText(), type(c.get(1).asText()), c.has(2) ? c.get(2).asText() : null);
        node.path("primaryKeys").forEach(k -> keys.add(k.asText()));
        node.path("partitionKeys").forEach(k -> partition.add(k.asText()));
        node.path("options").fields().forEachRemaining(o -> schema.option(o.getKey(), o.getValue().asText()));
        if (node.has("comment")) schema.comment(node.get("comment").asText());
        schemas(call).createTable(schema.primaryKey(keys).partitionKeys(partition).build());
    }

    /**
     * One change in the words, or several as one schema in the input's lines, each a JSON array of the same words. A
     * column inside of a ROW is named by its path, a.b.c, where `element`, `key` and `value` go into an ARRAY or a MAP.
     */
    static void alter(Oracle.Call call) throws Exception {
        List<SchemaChange> changes = new ArrayList<>();
        if (call.words.size() > 2) changes.add(change(call.words.subList(2, call.words.size())));
        else for (String line; (line = call.in.readLine()) != null; ) {
            if (line.isBlank()) continue;
            List<String> words = new ArrayList<>();
            Oracle.json(line).forEach(word -> words.add(word.asText()));
            changes.add(change(words));
        }
        call.out.accept(Oracle.json(schemas(call).commitChanges(changes).toString()).toString());
    }

    private static SchemaChange change(List<String> words) {
        String verb = words.get(0), name = words.get(1), value = words.size() > 2 ? words.get(2) : null;
        String[] path = name.split("\\.");
        switch (verb) {
            case "add": return SchemaChange.addColumn(path, type(value), null, words.size() < 4 ? null
                : words.get(3).equals("first") ? SchemaChange.Move.first(name) : SchemaChange.Move.after(name, words.get(4)));
            case "drop": return SchemaChange.dropColumn(path);
            case "rename": return SchemaChange.renameColumn(path, value);
            case "type": return SchemaChange.updateColumnType(path, type(value), true);
            case "null": return SchemaChange.updateColumnNullability(path, Boolean.parseBoolean(value));
            case "comment": return SchemaChange.updateColumnComment(path, value);
            case "move": return SchemaChange.updateColumnPosition(value.equals("first") ? SchemaChange.Move.first(name)
                : value.equals("last") ? SchemaChange.Move.last(name) : SchemaChange.Move.after(name, words.get(3)));
            case "set": return SchemaChange.setOption(name, value);
            case "unset": return SchemaChange.removeOption(name);
            default: throw new IllegalArgumentException("no change " + verb);
        }
    }

    /** The type of an SQL text, nested ones too: ARRAY<INT>, MAP<STRING, INT>, MULTISET<INT>, ROW<a INT, b STRING NOT NULL>. */
    static DataType type(String text) {
        text = text.trim();
        int open = text.indexOf('<');
        if (open < 0) return DataTypeJsonParser.parseAtomicTypeSQLString(text);
        int close = text.lastIndexOf('>');
        List<String> inner = split(text.substring(open + 1, close));
        boolean notNull = text.substring(close + 1).trim().equalsIgnoreCase("NOT NULL");
        return nested(text.substring(0, open).trim().toUpperCase(), inner).copy(!notNull);
    }

    private static DataType nested(String root, List<String> inner) {
        switch (root) {
            case "ARRAY": return new ArrayType(type(inner.get(0)));
            case "MULTISET": return new MultisetType(type(inner.get(0)));
            case "MAP": return new MapType(type(inner.get(0)), type(inner.get(1)));
            case "ROW": {
                List<DataField> fields = new ArrayList<>();
                for (String field : inner) {
                    String[] both = field.split("\\s+", 2);
                    fields.add(new DataField(fields.size(), both[0], type(both[1])));
                }
                return new RowType(fields);
            }
            default: throw new IllegalArgumentException("no type " + root);
        }
    }

    /** Parts between the commas that stand in no brackets. */
    private static List<String> split(String text) {
        List<String> parts = new ArrayList<>();
        int depth = 0, from = 0;
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (c == '<' || c == '(') depth++;
            if (c == '>' || c == ')') depth--;
            if (c == ',' && depth == 0) {
                parts.add(text.substring(from, i).trim());
                from = i + 1;
            }
        }
        parts.add(text.substring(from).trim());
        return parts;
    }
}
