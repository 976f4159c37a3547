import java.math.BigDecimal;
import java.math.MathContext;
import java.nio.charset.StandardCharsets;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.paimon.data.*;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.types.*;

/**
 * Rows as canonical JSON lines, the same text from every reader of the tests, so that equal rows are equal bytes:
 * columns in schema order; integers and booleans plain; FLOAT and DOUBLE by their shortest digits as `1.5e0`; DECIMAL,
 * DATE, TIME and TIMESTAMP strings in the type's precision (with local time zone: UTC with a Z); binary as base64;
 * MAP as `[[key,value],…]` in the order of the keys' text, MULTISET so with counts as values; ROW as an object; NaN and the infinities as strings.
 */
final class Row {
    private final List<DataField> fields;
    private final InternalRow.FieldGetter[] getters;

    Row(RowType type) {
        fields = type.getFields();
        getters = new InternalRow.FieldGetter[fields.size()];
        for (int i = 0; i < getters.length; i++) getters[i] = InternalRow.createFieldGetter(fields.get(i).type(), i);
    }

    Object get(InternalRow row, int i) {
        return getters[i].getFieldOrNull(row);
    }

    String text(InternalRow row) {
        StringBuilder out = new StringBuilder();
        append(out, row);
        return out.toString();
    }

    private void append(StringBuilder out, InternalRow row) {
        out.append('{');
        for (int i = 0; i < getters.length; i++) {
            if (i > 0) out.append(',');
            quote(out, fields.get(i).name());
            value(out.append(':'), fields.get(i).type(), get(row, i));
        }
        out.append('}');
    }

    static void quote(StringBuilder out, String s) {
        out.append('"');
        for (int i = 0; i < s.length(); i++) {
            char c = s.charAt(i);
            int named = "\"\\\b\f\n\r\t".indexOf(c);
            if (named >= 0) out.append('\\').append("\"\\bfnrt".charAt(named));
            else if (c < 0x20) out.append(String.format("\\u%04x", (int) c));
            else out.append(c);
        }
        out.append('"');
    }

    static void value(StringBuilder out, DataType type, Object v) {
        if (v == null) {
            out.append("null");
            return;
        }
        switch (type.getTypeRoot()) {
            case BOOLEAN: case TINYINT: case SMALLINT: case INTEGER: case BIGINT: out.append(v); break;
            case FLOAT: case DOUBLE: number(out, (Number) v); break;
            case CHAR: case VARCHAR: quote(out, v.toString()); break;
            case DECIMAL: quote(out, ((Decimal) v).toBigDecimal().toPlainString()); break;
            case BINARY: case VARBINARY: quote(out, Base64.getEncoder().encodeToString((byte[]) v)); break;
            case DATE: quote(out, LocalDate.ofEpochDay((int) v).toString()); break;
            case TIME_WITHOUT_TIME_ZONE:
                quote(out, clock(LocalTime.ofNanoOfDay((int) v * 1_000_000L), Math.min(3, ((TimeType) type).getPrecision()))); break;
            case TIMESTAMP_WITHOUT_TIME_ZONE:
                quote(out, instant((Timestamp) v, ((TimestampType) type).getPrecision())); break;
            case TIMESTAMP_WITH_LOCAL_TIME_ZONE:
                quote(out, instant((Timestamp) v, ((LocalZonedTimestampType) type).getPrecision()) + "Z"); break;
            case ARRAY: out.append('[').append(String.join(",", elements(((ArrayType) type).getElementType(), (InternalArray) v))).append(']'); break;
            case MAP: pairs(out, ((MapType) type).getKeyType(), ((MapType) type).getValueType(), (InternalMap) v); break;
            case MULTISET: pairs(out, ((MultisetType) type).getElementType(), DataTypes.INT(), (InternalMap) v); break;
            case ROW: new Row((RowType) type).append(out, (InternalRow) v); break;
            default: throw new IllegalArgumentException("no text for type " + type);
        }
    }

    private static void pairs(StringBuilder out, DataType keyType, DataType valueType, InternalMap map) {
        List<String> keys = elements(keyType, map.keyArray()), values = elements(valueType, map.valueArray()), pairs = new ArrayList<>();
        for (int i = 0; i < keys.size(); i++) pairs.add("[" + keys.get(i) + "," + values.get(i) + "]");
        Collections.sort(pairs);
        out.append('[').append(String.join(",", pairs)).append(']');
    }

    private static List<String> elements(DataType type, InternalArray array) {
        InternalArray.ElementGetter getter = InternalArray.createElementGetter(type);
        List<String> all = new ArrayList<>();
        for (int i = 0; i < array.size(); i++) {
            StringBuilder out = new StringBuilder();
            value(out, type, getter.getElementOrNull(array, i));
            all.add(out.toString());
        }
        return all;
    }

    /** Shortest digits that read back as the same number (JDKs before 19 print too many). */
    private static void number(StringBuilder out, Number v) {
        double d = v.doubleValue();
        if (!Double.isFinite(d)) {
            quote(out, v.toString());
            return;
        }
        if (d == 0) {
            out.append(1 / d < 0 ? "-0e0" : "0e0");
            return;
        }
        BigDecimal exact = new BigDecimal(d), short_ = exact;
        for (int digits = 1; digits <= 17; digits++) {
            short_ = exact.round(new MathContext(digits));
            if (v instanceof Float ? short_.floatValue() == v.floatValue() : short_.doubleValue() == d) break;
        }
        short_ = short_.stripTrailingZeros();
        String digits = short_.unscaledValue().abs().toString();
        if (d < 0) out.append('-');
        out.append(digits.charAt(0));
        if (digits.length() > 1) out.append('.').append(digits, 1, digits.length());
        out.append('e').append(digits.length() - 1 - short_.scale());
    }

    private static String clock(LocalTime t, int digits) {
        String base = String.format("%02d:%02d:%02d", t.getHour(), t.getMinute(), t.getSecond());
        return digits == 0 ? base : base + "." + String.format("%09d", t.getNano()).substring(0, digits);
    }

    private static String instant(Timestamp t, int digits) {
        LocalDateTime local = t.toLocalDateTime();
        return local.toLocalDate() + " " + clock(local.toLocalTime(), digits);
    }

    /** FNV-1a, 64 bits, of the UTF-8 text. */
    static long hash(String text) {
        long h = 0xcbf29ce484222325L;
        for (byte b : text.getBytes(StandardCharsets.UTF_8)) h = (h ^ (b & 0xff)) * 0x100000001b3L;
        return h;
    }

    // ---- the way back

    static GenericRow parse(RowType type, JsonNode node) {
        node.fieldNames().forEachRemaining(name -> {
            if (!type.containsField(name)) throw new IllegalArgumentException("no column " + name);
        });
        GenericRow row = new GenericRow(type.getFieldCount());
        for (int i = 0; i < type.getFieldCount(); i++) row.setField(i, parse(type.getTypeAt(i), node.get(type.getFieldNames().get(i))));
        return row;
    }

    static Object parse(DataType type, JsonNode node) {
        if (node == null || node.isNull()) return null;
        String s = node.asText();
        switch (type.getTypeRoot()) {
            case BOOLEAN: return Boolean.valueOf(s);
            case TINYINT: return Byte.valueOf(s);
            case SMALLINT: return Short.valueOf(s);
            case INTEGER: return Integer.valueOf(s);
            case BIGINT: return Long.valueOf(s);
            case FLOAT: return Float.valueOf(s);
            case DOUBLE: return Double.valueOf(s);
            case CHAR: case VARCHAR: return BinaryString.fromString(s);
            case DECIMAL: return Decimal.fromBigDecimal(new BigDecimal(s), ((DecimalType) type).getPrecision(), ((DecimalType) type).getScale());
            case BINARY: case VARBINARY: return Base64.getDecoder().decode(s);
            case DATE: return (int) LocalDate.parse(s).toEpochDay();
            case TIME_WITHOUT_TIME_ZONE: return (int) (LocalTime.parse(s).toNanoOfDay() / 1_000_000);
            case TIMESTAMP_WITHOUT_TIME_ZONE: case TIMESTAMP_WITH_LOCAL_TIME_ZONE:
                return Timestamp.fromLocalDateTime(LocalDateTime.parse(s.replace(' ', 'T').replace("Z", "")));
            case ARRAY: {
                Object[] all = new Object[node.size()];
                for (int i = 0; i < all.length; i++) all[i] = parse(((ArrayType) type).getElementType(), node.get(i));
                return new GenericArray(all);
            }
            case MAP: return map(((MapType) type).getKeyType(), ((MapType) type).getValueType(), node);
            case MULTISET: return map(((MultisetType) type).getElementType(), DataTypes.INT(), node);
            case ROW: return parse((RowType) type, node);
            default: throw new IllegalArgumentException("no input for type " + type);
        }
    }

    private static GenericMap map(DataType keyType, DataType valueType, JsonNode pairs) {
        Map<Object, Object> map = new LinkedHashMap<>();
        for (JsonNode pair : pairs) map.put(parse(keyType, pair.get(0)), parse(valueType, pair.get(1)));
        return new GenericMap(map);
    }
}
